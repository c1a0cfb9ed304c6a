package devnet

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// Limits of the node's websocket.
const (
	maxSubscriptions = 5
	pingEvery        = 27 * time.Second
	writeTimeout     = 10 * time.Second
)

// A socket is one websocket connection. One goroutine reads requests, another answers them
// and sends events.
type socket struct {
	node          *Node
	server        *cometServer
	conn          *websocket.Conn
	subscriptions []subscription
}

type subscription struct {
	id    json.RawMessage
	query string
}

func (s *cometServer) serveSocket(w http.ResponseWriter, r *http.Request) {
	forks := s.node.chain.forksBelow(math.MaxInt64) // taken before the client can see one
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	requests, sent := make(chan rpcRequest, 16), s.node.Height() // taken before anybody can subscribe
	go func() {
		defer close(requests)
		for {
			_, body, err := conn.Read(context.WithoutCancel(r.Context()))
			if err != nil {
				return
			}
			var request rpcRequest
			if json.Unmarshal(body, &request) == nil { // the node says nothing to what it cannot read
				requests <- request
			}
		}
	}()
	k := &socket{node: s.node, server: s, conn: conn}
	k.serve(r.Context(), requests, sent, forks)
	_ = conn.CloseNow()  // abruptly, which also ends the reading
	for range requests { // what is left is not answered
	}
}

// serve answers requests and sends what happens after the block that was sent last, until
// ctx ends, the client does not take it, or there are other forks than there were.
func (k *socket) serve(ctx context.Context, requests <-chan rpcRequest, sent, forks int64) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		moved, refaulted := k.node.chain.changes(), k.node.comet.changes()
		if k.node.chain.forksBelow(math.MaxInt64) != forks {
			return // a node that is set back is started anew
		}
		for ; sent < k.node.Height() && !k.node.comet.fault.Load().Stall; sent++ {
			if k.sendBlock(sent+1) != nil {
				return
			}
		}
		var err error
		select {
		case <-ctx.Done():
			k.goodbye()
			return
		case request, more := <-requests:
			if !more {
				return
			}
			err = k.answer(request)
		case <-moved:
		case <-refaulted:
		case <-ping.C:
			err = k.ping()
		}
		if err != nil {
			return
		}
	}
}

// write sends an answer or an event.
func (k *socket) write(id, result json.RawMessage, failure *rpcError) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return k.conn.Write(ctx, websocket.MessageText, appendAnswer(nil, id, result, failure))
}

func (k *socket) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return k.conn.Ping(ctx)
}

func (k *socket) answer(r rpcRequest) error {
	if r.Method != "subscribe" {
		result, failure := k.server.dispatch(r)
		return k.write(r.ID, result, failure)
	}
	return k.write(r.ID, json.RawMessage("{}"), k.subscribe(r))
}

func (k *socket) subscribe(r rpcRequest) *rpcError {
	var params struct{ Query string }
	_ = json.Unmarshal(r.Params, &params) // what cannot be read is no query
	same := func(s subscription) bool { return s.query == params.Query }
	switch {
	case len(k.subscriptions) >= maxSubscriptions:
		return internalError("max_subscriptions_per_client 5 reached")
	case !eventQuery.MatchString(params.Query):
		return internalError("failed to parse query: invalid query")
	case slices.ContainsFunc(k.subscriptions, same):
		return internalError("already subscribed")
	}
	k.subscriptions = append(k.subscriptions, subscription{r.ID, params.Query})
	return nil
}

// sendBlock sends the events of a block.
func (k *socket) sendBlock(h int64) error {
	if len(k.subscriptions) == 0 {
		return nil
	}
	for _, e := range k.node.chain.eventsOf(max(1, h+k.node.ahead()-k.node.comet.fault.Load().EventsBehind)) {
		for _, s := range k.subscriptions {
			if !e.matches(s.query) {
				continue
			}
			if err := k.write(s.id, e.result(s.query), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// goodbye tells every subscriber that the node goes away.
func (k *socket) goodbye() {
	for _, s := range k.subscriptions {
		_ = k.write(s.id, nil, &rpcError{Code: -32000, Message: "Server error", Data: "subscription was canceled (reason: CometBFT exited)"})
	}
}
