package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// beside is how many sockets are told of whole blocks, beside those that are measured.
const beside = 200

// Sockets measures how long after a block its header is with very many WebSockets of the RPC, each
// of which asks for two kinds of transactions, too, and what a socket takes.
func Sockets(ctx context.Context, r *rig.Rig) error {
	n, most, interval := 10_000, beside, 2*time.Second
	if r.Short {
		n, most, interval = 20, 2, 0
	}
	defer func(d devnet.Dialect) { r.Dialect = d }(r.Dialect)
	r.Dialect = devnet.Cosmos // Story's simulated nodes find no transactions
	d, err := r.Chain(rig.Still)
	if err != nil {
		return err
	}
	rpc := rig.FreeAddr()
	serving := rig.Before(d, "--rpc-listen", rpc)
	serving.Env = roomForStreams
	t, err := r.Replica(ctx, serving)
	if err != nil {
		return err
	}
	defer t.Stop()
	empty, err := t.Usage()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := newArrivals(n)
	for i := range n {
		queries := []string{"tm.event='NewBlockHeader'", fmt.Sprintf("tm.event='Tx' AND message.sender='a%d'", i), fmt.Sprintf("tm.event='Tx' AND transfer.recipient='a%d'", i)}
		if err := listen(ctx, rpc, a, d.Height(), queries...); err != nil {
			return err
		}
	}
	open, err := t.Usage()
	if err != nil {
		return err
	}
	for range most {
		if err := listen(ctx, rpc, newArrivals(1), d.Height(), "tm.event='NewBlock'"); err != nil {
			return err
		}
	}
	for range streamedBlocks {
		if err := a.advance(ctx, d, interval); err != nil {
			return err
		}
	}
	r.Table(fmt.Sprintf("headers of %d blocks over WebSockets with three subscriptions each, beside %d with NewBlock", streamedBlocks, most),
		[]string{"sockets", "bytes an event", "p50 ms", "p99 ms", "max ms", "KiB a socket"},
		[][]string{figures.Row(n, a.size, figures.Median(a.late), figures.Quantile(a.late, 0.99), figures.Quantile(a.late, 1), float64(open.RSS-empty.RSS)/1024/float64(n))})
	r.Note("The time is from the moment the node can answer for a block until the event is read. Server and clients share the machine.")
	return nil
}

// listen opens a WebSocket with subscriptions, and notes the heights of the headers that come.
func listen(ctx context.Context, rpc string, a *arrivals, height int64, queries ...string) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+rpc+"/websocket", nil) //nolint:bodyclose // it is the connection's
	if err != nil {
		return err
	}
	conn.SetReadLimit(1 << 24)
	for id, query := range queries {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"query":%q}}`, id, query)
		if err := conn.Write(ctx, websocket.MessageText, []byte(call)); err != nil {
			return err
		}
		if _, _, err := conn.Read(ctx); err != nil {
			return err
		}
	}
	a.note(0, height, 0)
	go func() {
		defer func() { _ = conn.CloseNow() }()
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				a.fail(err)
				return
			}
			value := gjson.GetBytes(message, "result.data.value")
			if now := max(value.Get("header.height").Int(), value.Get("block.header.height").Int()); now > 0 {
				a.note(height, now, len(message))
				height = now
			}
		}
	}()
	return nil
}
