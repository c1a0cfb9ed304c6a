package devnet

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Limits of the node's websocket.
const (
	maxSubscriptions = 5
	pingEvery        = 27 * time.Second
	writeTimeout     = 10 * time.Second
)

// A socket is one websocket connection. One goroutine reads requests, another
// sends events.
type socket struct {
	server *cometServer
	conn   *websocket.Conn

	mu            sync.Mutex
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
	k := &socket{server: s, conn: conn}
	sending, sent := make(chan struct{}), s.node.Height() // taken before anybody can subscribe
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		defer close(sending)
		k.send(ctx, sent, forks)
		if r.Context().Err() != nil {
			k.goodbye()
		}
		_ = conn.CloseNow() // abruptly, which also ends the reading
	}()
	k.read(context.WithoutCancel(r.Context()))
	cancel()
	<-sending
}

// read answers requests until the connection ends.
func (k *socket) read(ctx context.Context) {
	for {
		_, body, err := k.conn.Read(ctx)
		if err != nil {
			return
		}
		var request rpcRequest
		if json.Unmarshal(body, &request) != nil {
			continue // the node says nothing to what it cannot read
		}
		if k.answer(ctx, request) != nil {
			return
		}
	}
}

// write sends an answer or an event.
func (k *socket) write(ctx context.Context, id, result json.RawMessage, failure *rpcError) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return k.conn.Write(ctx, websocket.MessageText, appendAnswer(nil, id, result, failure))
}

func (k *socket) answer(ctx context.Context, r rpcRequest) error {
	if r.Method != "subscribe" {
		result, failure := k.server.dispatch(r)
		return k.write(ctx, r.ID, result, failure)
	}
	return k.write(ctx, r.ID, json.RawMessage("{}"), k.subscribe(r))
}

func (k *socket) subscribe(r rpcRequest) *rpcError {
	var params struct{ Query string }
	_ = json.Unmarshal(r.Params, &params) // what cannot be read is no query
	k.mu.Lock()
	defer k.mu.Unlock()
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

func (k *socket) subscribed() []subscription {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.subscriptions)
}

// send sends what happens after the block that was sent last, until ctx ends or
// the client does not take it, or there are other forks than there were.
func (k *socket) send(ctx context.Context, sent, forks int64) {
	node := k.server.node
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		moved, refaulted := node.chain.changes(), node.comet.changes()
		if node.chain.forksBelow(math.MaxInt64) != forks {
			return // a node that is set back is started anew
		}
		for ; sent < node.Height() && !node.comet.fault.Load().Stall; sent++ {
			if k.sendBlock(ctx, sent+1) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-refaulted:
		case <-ping.C:
			if k.ping(ctx) != nil {
				return
			}
		}
	}
}

func (k *socket) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return k.conn.Ping(ctx)
}

// sendBlock sends the events of a block.
func (k *socket) sendBlock(ctx context.Context, h int64) error {
	node := k.server.node
	subscriptions, told := k.subscribed(), max(1, h+node.ahead()-node.comet.fault.Load().EventsBehind)
	if len(subscriptions) == 0 {
		return nil
	}
	for _, e := range node.chain.eventsOf(told) {
		for _, s := range subscriptions {
			if !e.matches(s.query) {
				continue
			}
			if err := k.write(ctx, s.id, e.result(s.query), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// goodbye tells every subscriber that the node goes away.
func (k *socket) goodbye() {
	for _, s := range k.subscribed() {
		_ = k.write(context.Background(), s.id, nil, &rpcError{Code: -32000, Message: "Server error", Data: "subscription was canceled (reason: CometBFT exited)"})
	}
}
