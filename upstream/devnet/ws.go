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

// writeTimeout is how long a client of the websocket may take for a message.
const writeTimeout = 10 * time.Second

// A socket is one websocket connection. One goroutine reads subscriptions, another sends events.
type socket struct {
	node          *Node
	conn          *websocket.Conn
	mu            sync.Mutex
	subscriptions []rpcRequest
}

func (n *Node) serveSocket(w http.ResponseWriter, r *http.Request) {
	forks := n.chain.forksBelow(math.MaxInt64) // taken before the client can see one
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	k, sent := &socket{node: n, conn: conn}, n.Height() // taken before anybody can subscribe
	ctx, cancel := context.WithCancel(r.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		k.read()
	})
	k.serve(ctx, sent, forks)
	_ = conn.CloseNow() // abruptly, which also ends the reading
	reading.Wait()
}

// read takes subscriptions, which are all that is asked for over the socket.
func (k *socket) read() {
	for {
		_, body, err := k.conn.Read(context.Background())
		if err != nil {
			return
		}
		var request rpcRequest
		_ = json.Unmarshal(body, &request) // what cannot be read asks for nothing
		k.mu.Lock()
		err = k.write(request.ID, json.RawMessage("{}"), nil)
		k.subscriptions = append(k.subscriptions, request)
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// serve sends what happens after the block that was sent last, until ctx ends, the client does
// not take it, or there are other forks than there were: a node that is rolled back is started anew.
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

// write sends an answer or an event.
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

// goodbye tells every subscriber that the node goes away.
func (k *socket) goodbye() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.subscriptions {
		_ = k.write(s.ID, nil, &rpcError{Code: -32000, Message: "Server error", Data: "subscription was canceled (reason: CometBFT exited)"})
	}
}
