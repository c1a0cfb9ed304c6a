package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/upstream/events"
)

// What a connection may have asked for and not been answered, before nothing more is read
// of it.
const (
	maxCalls = 100
	maxBytes = 2 << 20
)

// atOnce is how many calls of a connection are read at the same time.
const atOnce = 20

// A turn is a call in the order asked.
type turn struct {
	call   jsonrpc.Call
	err    error  // why it cannot be read
	size   int    // of its message, in bytes
	read   func() // releases the message
	answer Answer
	again  func() Answer // reads once more what was read ahead; nil where nothing was
	held   func()        // releases the answer; nil: it has no memory yet
	done   chan struct{} // closed when the answer was read ahead; nil: no goroutine has begun to read it
}

// A conn is a client's connection.
type conn struct {
	handler    *Handler
	request    *http.Request
	ws         *websocket.Conn
	below      net.Conn        // that ws writes to
	ctx        context.Context //nolint:containedctx // the connection's own
	end        context.CancelFunc
	subscriber *events.Subscriber
	listener   Listener       // nil: none
	shown      int64          // block that the last answer was of, 0 for none; of what answers
	works      sync.WaitGroup // what answers, writes and pings
	pings      *time.Timer
	accepted   chan struct{}
	release    func() // ends the wait until the client is no longer admitted; nil before that begins

	writing sync.Mutex // held for each message, and while a subscription begins: its events come behind the answer
	closing bool       // nothing is written any more; guarded by writing

	mu       sync.Mutex
	turns    []*turn // in the order asked; the first is being answered
	bytes    int     // of them
	busy     bool    // they are being answered
	room     *sync.Cond
	draining bool
}

func newConn(d *Handler, r *http.Request) *conn {
	c := &conn{handler: d, request: r, accepted: make(chan struct{})}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(r.Context()))
	c.request = r.WithContext(c.ctx)
	c.room = sync.NewCond(&c.mu)
	c.subscriber = d.o.Feed.Subscriber(d.o.Subscriptions, func() { c.works.Go(c.tell) })
	return c
}

// serve reads until the connection ends, and waits for all the goroutines that it started.
func (c *conn) serve(ws *websocket.Conn, below net.Conn) {
	c.ws, c.below = ws, below
	if c.handler.o.Listen != nil {
		c.listener = c.handler.o.Listen(c.request)
	}
	close(c.accepted)
	ws.SetReadLimit(c.handler.o.Message)
	c.works.Add(1) // the ping's, until it is stopped
	c.pings = time.AfterFunc(c.handler.o.Ping, c.ping)
	defer c.close()
	for {
		_, from, err := ws.Reader(c.ctx)
		if err != nil {
			return
		}
		message, release, err := c.handler.o.Methods.ReadMessage(c.request, from, c.handler.o.Message)
		if err != nil {
			release()
			if errors.Is(err, ErrMemory) {
				_ = ws.Close(websocket.StatusTryAgainLater, err.Error())
			}
			return
		}
		c.enqueue(message, release)
	}
}

func (c *conn) close() {
	c.end()
	c.stopPings()
	c.subscriber.Close() // a call that is being answered cannot subscribe any more, and no event starts c.tell
	_ = c.ws.CloseNow()
	c.works.Wait()
	if c.listener != nil {
		c.listener.Close()
	}
}

// stopPings counts the next ping off the works, unless it has begun.
func (c *conn) stopPings() {
	if c.pings.Stop() {
		c.works.Done()
	}
}

// ping asks for a sign of life, and cuts a connection that gives none.
func (c *conn) ping() {
	ctx, cancel := context.WithTimeout(c.ctx, c.handler.o.Pong)
	defer cancel()
	if c.ws.Ping(ctx) != nil || c.ctx.Err() != nil {
		_ = c.ws.CloseNow()
		c.works.Done()
		return
	}
	if c.pings.Reset(c.handler.o.Ping); c.ctx.Err() != nil { // close may have come before the timer was set
		c.stopPings()
	}
}

// write sends a message.
func (c *conn) write(message []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, c.handler.o.Write)
	defer cancel()
	_ = c.ws.Write(ctx, websocket.MessageText, message) // a failure ends the connection, and reading
}

// enqueue puts a call behind the calls that are not answered yet. Where there are many, it waits
// for room.
func (c *conn) enqueue(message []byte, release func()) {
	t := &turn{size: len(message), read: release}
	t.call, t.err = jsonrpc.ReadFirst(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.draining && (len(c.turns) >= maxCalls || c.bytes > maxBytes) {
		c.room.Wait()
	}
	if c.draining {
		release()
		return
	}
	c.turns = append(c.turns, t)
	c.bytes += t.size
	if !c.busy {
		c.busy = true
		c.works.Go(c.work)
		return
	}
	c.readAhead()
}

// readAhead begins to read for the calls behind the first, up to one that has to be alone.
// Call with mu held.
func (c *conn) readAhead() {
	for i, t := range c.turns[:min(len(c.turns), atOnce)] {
		if c.alone(t) {
			return
		}
		if i > 0 && t.done == nil {
			release := c.handler.o.Methods.HoldAhead()
			if release == nil {
				return
			}
			t.done = make(chan struct{})
			c.works.Go(func() {
				defer close(t.done)
				defer release()
				answer := c.handler.o.Methods.Call(c.request, t.call.Method, t.call.Params)
				t.again = answer.Again
				if held, refusal := c.handler.o.Methods.HoldResponse(c.request, len(answer.Member)); refusal == nil {
					t.answer, t.held = answer, held
				}
			})
		}
	}
}

// alone says whether a call waits for those before it, and has those behind wait.
func (c *conn) alone(t *turn) bool {
	return t.err != nil || t.call.ID == nil || ofSubscriptions(t.call.Method) || c.handler.o.Methods.Alone(t.call.Method)
}

// work answers calls until there is none.
func (c *conn) work() {
	for {
		c.mu.Lock()
		if len(c.turns) == 0 {
			c.turns, c.busy = nil, false
			c.room.Broadcast()
			c.mu.Unlock()
			return
		}
		t := c.turns[0]
		c.readAhead()
		c.mu.Unlock()
		if c.ctx.Err() == nil {
			c.answer(t)
		}
		t.release()
		c.mu.Lock()
		c.turns[0] = nil
		c.turns = c.turns[1:]
		c.bytes -= t.size
		c.room.Broadcast()
		c.mu.Unlock()
	}
}

// answer answers the call whose turn it is.
func (c *conn) answer(t *turn) {
	r := t.call
	switch {
	case t.err != nil:
		c.send(jsonrpc.AppendAnswer(nil, nil, jsonrpc.Error(jsonrpc.ParseError, "error unmarshaling request: "+t.err.Error())))
	case r.ID == nil: // a notification
	case ofSubscriptions(r.Method):
		refusal := c.handler.o.Methods.Subscription(c.request, r.Method, func() int {
			c.writing.Lock()
			defer c.writing.Unlock()
			answer := c.subscription(r)
			c.write(answer)
			return len(answer)
		})
		if refusal != nil {
			c.send(jsonrpc.AppendAnswer(nil, r.ID, refusal))
		}
	default:
		if member := c.called(t).Member; member != nil {
			c.send(jsonrpc.AppendAnswer(nil, r.ID, c.hold(t, member)))
			return
		}
		c.send(tooFew)
	}
}

// hold reserves the member of an answer, which is in memory until the client has read it, and returns the member or
// why there is no memory for it.
func (c *conn) hold(t *turn, member []byte) []byte {
	if t.held == nil {
		held, refusal := c.handler.o.Methods.HoldResponse(c.request, len(member))
		if refusal != nil {
			return refusal
		}
		t.held = held
	}
	return member
}

// release releases the memory of a turn that is over.
func (t *turn) release() {
	if t.done != nil {
		<-t.done
	}
	if t.held != nil {
		t.held()
	}
	t.read()
}

// called is the answer to a call whose turn it is. One that was read while the call before
// it was answered at a later block is read again.
func (c *conn) called(t *turn) Answer {
	if t.done != nil {
		<-t.done
	}
	switch {
	case t.held != nil && (t.answer.Height == 0 || t.answer.Height >= c.shown):
	case t.again != nil:
		t.answer = t.again()
	default:
		t.answer = c.handler.o.Methods.Call(c.request, t.call.Method, t.call.Params)
	}
	if t.answer.Height > 0 {
		c.shown = t.answer.Height
	}
	return t.answer
}

// tooFew is what the node says to a call without parameters where there have to be some.
var tooFew = jsonrpc.AppendAnswer(nil, jsonrpc.NoID, jsonrpc.Error(jsonrpc.InternalError, "WSJSONRPC: reflect: Call with too few input arguments"))

func (c *conn) send(message []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.write(message)
}

// following returns the method by which the client follows events, "" if it follows none.
func (c *conn) following() string {
	if c.subscriber.IsSubscribed() {
		return "subscribe"
	}
	return ""
}

// revokeTime is how long the connection of a client that is no longer admitted may take to end.
const revokeTime = 500 * time.Millisecond

// maxReason is the longest reason of a close frame, in bytes.
const maxReason = 123

// revoke ends the connection of a client that is no longer admitted. Its calls that wait are refused.
func (c *conn) revoke(reason string) {
	go func() { // ends with the connection
		defer c.end()
		ctx, cancel := context.WithTimeout(c.ctx, revokeTime)
		defer cancel()
		c.drain(ctx, websocket.StatusPolicyViolation, reason[:min(len(reason), maxReason)])
	}()
}

// drain answers the calls that were made, and closes the connection with a status. When ctx ends the
// connection is cut.
func (c *conn) drain(ctx context.Context, status websocket.StatusCode, reason string) {
	select {
	case <-c.accepted:
	case <-c.ctx.Done():
		return
	case <-ctx.Done():
		return
	}
	defer context.AfterFunc(ctx, func() { _ = c.ws.CloseNow() })()
	c.mu.Lock()
	c.draining = true
	c.room.Broadcast()
	for c.busy && c.ctx.Err() == nil {
		c.room.Wait()
	}
	c.mu.Unlock()
	c.writing.Lock()
	c.closing = true
	c.writing.Unlock()
	_ = c.ws.Close(status, reason)
}
