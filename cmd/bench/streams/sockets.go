package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// beside is how many sockets are told of whole blocks, beside those that are measured.
const beside = 200

// Sockets measures how long after a block its header is with very many WebSockets of the RPC, each
// of which asks for two kinds of transactions, too, and what a socket takes.
func Sockets(ctx context.Context, r *rig.Rig) {
	n, most, interval := 10_000, beside, 2*time.Second
	if r.Short {
		n, most, interval = 20, 2, 0
	}
	defer func(d devnet.Dialect) { r.Dialect = d }(r.Dialect)
	r.Dialect = devnet.Cosmos // Story's simulated nodes find no transactions
	rpc := rig.FreeAddr()
	s := start(ctx, r, "--rpc-listen", rpc)
	defer s.Stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := newArrivals(n)
	for i := range n {
		listen(ctx, rpc, a, s.chain.Height(), "tm.event='NewBlockHeader'", fmt.Sprintf("tm.event='Tx' AND message.sender='a%d'", i), fmt.Sprintf("tm.event='Tx' AND transfer.recipient='a%d'", i))
	}
	each := s.each(n)
	for range most {
		listen(ctx, rpc, newArrivals(1), s.chain.Height(), "tm.event='NewBlock'")
	}
	a.advance(ctx, s.chain, streamedBlocks, interval)
	r.Table(fmt.Sprintf("headers of %d blocks over WebSockets with three subscriptions each, beside %d with NewBlock", streamedBlocks, most),
		[]string{"sockets", "bytes an event", "p50 ms", "p99 ms", "max ms", "KiB a socket"}, [][]string{a.row([]any{n, a.size}, each)})
	r.Note(whatLate)
}

// listen opens a WebSocket with subscriptions, and notes the heights of the headers that come.
func listen(ctx context.Context, rpc string, a *arrivals, height int64, queries ...string) {
	conn, _, err := websocket.Dial(ctx, "ws://"+rpc+"/websocket", nil) //nolint:bodyclose // it is the connection's
	rig.Check(err)
	conn.SetReadLimit(1 << 24)
	for id, query := range queries {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"query":%q}}`, id, query)
		rig.Check(conn.Write(ctx, websocket.MessageText, []byte(call)))
		_, _, err := conn.Read(ctx)
		rig.Check(err)
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
}
