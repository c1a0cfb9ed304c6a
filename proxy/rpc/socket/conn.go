package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/events"
)

// Queue limits of a connection. While one is reached, the connection is not read.
const (
	maxCalls = 100
	maxBytes = 2 << 20
)

// maxConcurrent is the number of calls of a connection that are read concurrently.
const maxConcurrent = 20

// goroutineCost is the measured memory of a goroutine that reads ahead, in bytes.
const goroutineCost = 12 << 10

type turn struct {
	call   jsonrpc.Call
	err    error  // why the call cannot be parsed
	size   int    // of the message, in bytes
	free   func() // releases the message
	answer Answer
	done   chan struct{} // closed when the read ahead has ended; nil if none was started
}

type conn struct {
	handler    *Handler
	request    *http.Request
	ws         *websocket.Conn
	raw        net.Conn        // the connection that ws writes to
	ctx        context.Context //nolint:containedctx // the connection's own
	end        context.CancelFunc
	subscriber *events.Subscriber
	listener   *session.EventClient
	lastHeight int64          // block of the last answer, 0 for none; used only by answer
	goroutines sync.WaitGroup // goroutines that answer, write events and ping
	pings      *time.Timer
	isWaiting  atomic.Bool // the reader waits for room in the queue, so it reads no pongs
	hasRead    atomic.Bool // bytes were read, or the reader waited, since the last ping
	accepted   chan struct{}
	release    func() // stops waiting until the client is no longer admitted; nil before that begins

	writing sync.Mutex // held for each message, and while a subscription begins, so that its events follow the answer
	closing bool       // nothing more may be written; guarded by writing

	mu          sync.Mutex
	turns       []*turn // the queue; the first is being answered
	bytes       int     // size of all turns
	isAnswering bool    // a goroutine is answering turns
	changed     *sync.Cond
	draining    bool
}

func newConn(d *Handler, r *http.Request) *conn {
	c := &conn{handler: d, request: r, accepted: make(chan struct{})}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(r.Context()))
	c.request = r.WithContext(c.ctx)
	c.changed = sync.NewCond(&c.mu)
	c.subscriber = d.o.Feed.Subscriber(d.o.Subscriptions, func() { c.goroutines.Go(c.writeEvents) })
	return c
}

// serve reads messages until the connection ends, and then waits for all goroutines that it started.
func (c *conn) serve(ws *websocket.Conn, raw net.Conn) {
	c.ws, c.raw = ws, raw
	c.listener = c.stack().Listen(c.request)
	close(c.accepted)
	ws.SetReadLimit(c.handler.o.Message)
	c.goroutines.Add(1) // for ping, until it is stopped
	c.pings = time.AfterFunc(c.handler.o.Ping, c.ping)
	defer c.close()
	for {
		_, from, err := ws.Reader(c.ctx)
		if err != nil {
			return
		}
		held := c.stack().HoldBody(c.stack().Admission.ClientOf(c.request))
		message, err := held.ReadAll(observedReader{from, &c.hasRead}, c.handler.o.Message)
		if err != nil {
			held.Release()
			if errors.As(err, new(*failure.Failure)) {
				_ = ws.Close(websocket.StatusTryAgainLater, "no memory for the message")
			}
			return
		}
		c.enqueue(message, held.Release)
	}
}

// observedReader records that bytes were read.
type observedReader struct {
	io.Reader
	hasRead *atomic.Bool
}

func (r observedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.hasRead.Store(true)
	}
	return n, err
}

func (c *conn) close() {
	c.end()
	c.stopPings()
	c.subscriber.Close() // a call that is being answered cannot subscribe any more, and no event starts writeEvents
	_ = c.ws.CloseNow()
	c.goroutines.Wait()
	c.listener.Close()
}

func (c *conn) stack() *web.Stack { return c.handler.o.Stack }

// stopPings cancels the next ping, unless it has begun.
func (c *conn) stopPings() {
	if c.pings.Stop() {
		c.goroutines.Done()
	}
}

// ping pings the client and closes a connection that does not respond, unless its pong may be behind other messages.
func (c *conn) ping() {
	ctx, cancel := context.WithTimeout(c.ctx, c.handler.o.Pong)
	defer cancel()
	c.hasRead.Store(false)
	if c.ws.Ping(ctx) != nil && !c.hasRead.Load() && !c.isWaiting.Load() || c.ctx.Err() != nil {
		_ = c.ws.CloseNow()
		c.goroutines.Done()
		return
	}
	if c.pings.Reset(c.handler.o.Ping); c.ctx.Err() != nil { // close may have run before the timer was set
		c.stopPings()
	}
}

func (c *conn) write(message []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, c.handler.o.Write)
	defer cancel()
	_ = c.ws.Write(ctx, websocket.MessageText, message) // a failure ends the connection and its reader
}

// enqueue queues a call. While the queue is full, it waits.
func (c *conn) enqueue(message []byte, release func()) {
	t := &turn{size: len(message), free: release}
	t.call, t.err = jsonrpc.ReadFirst(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.draining && (len(c.turns) >= maxCalls || c.bytes > maxBytes) {
		c.isWaiting.Store(true)
		c.changed.Wait()
	}
	if c.isWaiting.Swap(false) {
		c.hasRead.Store(true)
	}
	if c.draining {
		release()
		return
	}
	c.turns = append(c.turns, t)
	c.bytes += t.size
	if !c.isAnswering {
		c.isAnswering = true
		c.goroutines.Go(c.work)
		return
	}
	c.readAhead()
}

// readAhead starts reading for the queued calls behind the first, up to the first exclusive one. The caller must
// hold mu.
func (c *conn) readAhead() {
	for i, t := range c.turns[:min(len(c.turns), maxConcurrent)] {
		if c.isExclusive(t) {
			return
		}
		if i > 0 && t.done == nil {
			release, err := c.stack().HoldStream(goroutineCost)
			if err != nil {
				return
			}
			t.done = make(chan struct{})
			c.goroutines.Go(func() {
				defer close(t.done)
				defer release()
				t.answer = c.handler.o.Methods.Call(c.request, t.call.Method, t.call.Params)
			})
		}
	}
}

// isExclusive reports whether a call waits for the earlier ones and delays the later ones.
func (c *conn) isExclusive(t *turn) bool {
	return t.err != nil || t.call.ID == nil || isSubscriptionMethod(t.call.Method) || c.handler.o.Methods.IsExclusive(t.call.Method)
}

// work answers calls until the queue is empty.
func (c *conn) work() {
	for {
		c.mu.Lock()
		if len(c.turns) == 0 {
			c.turns, c.isAnswering = nil, false
			c.changed.Broadcast()
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
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

func (c *conn) answer(t *turn) {
	r := t.call
	switch {
	case t.err != nil:
		refusal := c.handler.o.Methods.Subscription(c.request, "", func() int {
			answer := jsonrpc.AppendAnswer(nil, nil, jsonrpc.Error(jsonrpc.ParseError, "error unmarshaling request: "+t.err.Error()))
			c.send(answer)
			return len(answer)
		})
		if refusal != nil {
			c.send(jsonrpc.AppendAnswer(nil, nil, refusal))
		}
	case r.ID == nil: // a notification, which has no answer
		_ = c.handler.o.Methods.Subscription(c.request, "", func() int { return 0 })
	case isSubscriptionMethod(r.Method):
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
		if c.call(t); t.answer.Member == nil {
			c.send(missingParams)
			return
		}
		c.send(jsonrpc.AppendAnswer(nil, r.ID, t.answer.Member))
	}
}

// release releases the memory of an answered turn.
func (t *turn) release() {
	if t.done != nil {
		<-t.done
	}
	t.answer.release()
	t.free()
}

// call sets the answer to the first call of the queue. It reads again a call that was read ahead if there was no memory
// for the answer, or if the answer before it is from a later block.
func (c *conn) call(t *turn) {
	if t.done != nil {
		<-t.done
	}
	switch a := t.answer; {
	case a.Release != nil && (a.Height == 0 || a.Height >= c.lastHeight):
	case a.Again != nil:
		a.release()
		t.answer = a.Again()
	default:
		t.answer = c.handler.o.Methods.Call(c.request, t.call.Method, t.call.Params)
	}
	if t.answer.Height > 0 {
		c.lastHeight = t.answer.Height
	}
}

func (a *Answer) release() {
	if a.Release != nil {
		a.Release()
	}
}

// missingParams is the node's response to a call without parameters of a method that needs some.
var missingParams = jsonrpc.AppendAnswer(nil, jsonrpc.NoID, jsonrpc.Error(jsonrpc.InternalError, "WSJSONRPC: reflect: Call with too few input arguments"))

func (c *conn) send(message []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.write(message)
}

// eventMethod returns "subscribe" if the client has subscriptions, and "" otherwise.
func (c *conn) eventMethod() string {
	if c.subscriber.IsSubscribed() {
		return "subscribe"
	}
	return ""
}

// revokeTime is the maximum time to close the connection of a client that is no longer admitted.
const revokeTime = 500 * time.Millisecond

// maxReason is the maximum length of the reason in a close frame, in bytes.
const maxReason = 123

// revoke closes the connection of a client that is no longer admitted. Its queued calls are refused.
func (c *conn) revoke(err error) {
	reason := failure.Of(err).Public
	go func() { // ends with the connection
		defer c.end()
		ctx, cancel := context.WithTimeout(c.ctx, revokeTime)
		defer cancel()
		c.drain(ctx, websocket.StatusPolicyViolation, reason[:min(len(reason), maxReason)])
	}()
}

// drain answers the queued calls and closes the connection with a status. When ctx ends, it cuts the connection.
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
	c.changed.Broadcast()
	for c.isAnswering && c.ctx.Err() == nil {
		c.changed.Wait()
	}
	c.mu.Unlock()
	c.writing.Lock()
	c.closing = true
	c.writing.Unlock()
	_ = c.ws.Close(status, reason)
}
