package devnet

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

// writeTimeout is the time within which a client of the WebSocket must accept a message.
const writeTimeout = 10 * time.Second

// A socket is a WebSocket connection. One goroutine reads subscriptions, another sends events.
type socket struct {
	node          *Node
	conn          *websocket.Conn
	mu            sync.Mutex
	subscriptions []rpcRequest
}

func (n *Node) serveSocket(w http.ResponseWriter, r *http.Request) {
	forks := n.chain.forksBelow(math.MaxInt64) // read before the client can subscribe
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	k, sent := &socket{node: n, conn: conn}, n.Height() // read before the client can subscribe
	ctx, cancel := context.WithCancel(r.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		k.read()
	})
	k.serve(ctx, sent, forks)
	_ = conn.CloseNow() // abruptly, which also ends read
	reading.Wait()
}

// read takes each message for a subscription.
func (k *socket) read() {
	for {
		_, body, err := k.conn.Read(context.Background())
		if err != nil {
			return
		}
		var request rpcRequest
		_ = json.Unmarshal(body, &request) // a malformed request is ignored
		k.mu.Lock()
		err = k.write(request.ID, json.RawMessage("{}"), nil)
		k.subscriptions = append(k.subscriptions, request)
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// serve sends the events of blocks above sent, until ctx ends, the client does not accept a message, or the chain is
// rolled back, when a real node would be restarted.
func (k *socket) serve(ctx context.Context, sent, forks int64) {
	for {
		moved, refaulted := k.node.chain.changes(), k.node.comet.changes()
		if k.node.chain.forksBelow(math.MaxInt64) != forks {
			return
		}
		for ; sent < k.node.Height() && !k.node.comet.fault.Load().Stall; sent++ {
			if k.sendBlock(sent+1) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			k.goodbye()
			return
		case <-moved:
		case <-refaulted:
		}
	}
}

// write sends a response or an event.
func (k *socket) write(id, result json.RawMessage, failure *rpcError) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return k.conn.Write(ctx, websocket.MessageText, appendAnswer(nil, id, result, failure))
}

// sendBlock sends the events of a block.
func (k *socket) sendBlock(h int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.subscriptions) == 0 {
		return nil
	}
	for _, e := range k.node.chain.eventsOf(max(1, h+k.node.ahead()-k.node.comet.fault.Load().EventsBehind)) {
		for _, s := range k.subscriptions {
			query := gjson.GetBytes(s.Params, "query").String()
			if !e.matches(query) {
				continue
			}
			if err := k.write(s.ID, e.result(query), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// goodbye notifies every subscriber that the node stops.
func (k *socket) goodbye() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.subscriptions {
		_ = k.write(s.ID, nil, &rpcError{Code: -32000, Message: "Server error", Data: "subscription was canceled (reason: CometBFT exited)"})
	}
}
