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
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/events"
)

type conn struct {
	handler     *Handler
	request     *http.Request
	ws          *websocket.Conn
	raw         net.Conn        // the connection that ws writes to
	ctx         context.Context //nolint:containedctx // the connection's own
	end         context.CancelFunc
	subscriber  *events.Subscriber
	eventClient *session.EventClient
	lastHeight  int64          // block of the last answer, 0 for none; used only by answer
	goroutines  sync.WaitGroup // goroutines that answer, write events and ping
	pings       *time.Timer
	isWaiting   atomic.Bool // the reader waits for room in the queue, so it reads no pongs
	hasRead     atomic.Bool // bytes were read, or the reader waited, since the last ping
	accepted    chan struct{}
	release     func() // stops waiting until the client is no longer admitted; nil before that begins

	writing sync.Mutex // held for each message, and while a subscription begins, so that its events follow the answer
	closing bool       // nothing more may be written; guarded by writing

	mu          sync.Mutex
	turns       []*turn // the queue; the first is being answered
	bytes       int     // size of all turns
	calls       int     // number of all calls so far
	isAnswering bool    // a goroutine is answering turns
	changed     *sync.Cond
	draining    bool // calls are dropped
}

func newConn(d *Handler, r *http.Request) *conn {
	c := &conn{handler: d, request: r, accepted: make(chan struct{})}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(r.Context()))
	c.request = r.WithContext(c.ctx)
	c.changed = sync.NewCond(&c.mu)
	client, _ := d.o.Stack.Admission.Renew(r, d.o.Keyed) // if the key has been removed, ServeHTTP refuses the connection
	c.subscriber = d.o.Feed.Subscriber(events.Client{
		Name: client.Name(), IsMany: d.o.Stack.Admission.IsMany(&client), Limit: d.o.Subscriptions,
		Wake: func() { c.goroutines.Go(c.writeEvents) },
		End:  func() { c.endWith(websocket.StatusTryAgainLater, "no memory for the events") },
	})
	return c
}

// serve reads messages until the connection ends, and then waits for all goroutines that it started.
func (c *conn) serve(ws *websocket.Conn, raw net.Conn) {
	c.ws, c.raw = ws, raw
	c.eventClient = c.stack().Listen(c.request)
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
		late := time.AfterFunc(c.handler.o.Read, c.end) // pings do not notice a message without an end
		// If the key has been removed, revoke ends the connection.
		client, _ := c.stack().Admission.Renew(c.request, c.handler.o.Keyed)
		held := c.stack().HoldBody(&client)
		message, err := held.ReadAll(observedReader{from, &c.hasRead}, c.handler.o.Message)
		late.Stop()
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
	c.eventClient.Close()
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

func (c *conn) send(message []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.write(message)
}

func (c *conn) eventMethod() string {
	if c.subscriber.IsSubscribed() {
		return "subscribe"
	}
	return ""
}

// endTime is the maximum time to close the connection of a client that is no longer admitted, or when memory is short.
const endTime = 500 * time.Millisecond

// maxReason is the maximum length of the reason in a close frame, in bytes.
const maxReason = 123

// revoke closes the connection of a client that is no longer admitted. Its queued calls are refused.
func (c *conn) revoke(err error) {
	c.endWith(websocket.StatusPolicyViolation, failure.Of(err).Public)
}

// endWith starts to close the connection with a status.
func (c *conn) endWith(status websocket.StatusCode, reason string) {
	go func() { // ends with the connection
		defer c.end()
		ctx, cancel := context.WithTimeout(c.ctx, endTime)
		defer cancel()
		c.drain(ctx, 0, status, reason[:min(len(reason), maxReason)])
	}()
}

// drain answers the queued calls, and further ones for late at most, until none has arrived for a tenth of it. It then closes the
// connection with a status. When ctx ends, it cuts the connection.
func (c *conn) drain(ctx context.Context, late time.Duration, status websocket.StatusCode, reason string) {
	defer context.AfterFunc(ctx, c.end)()
	select {
	case <-c.accepted:
	case <-c.ctx.Done():
		return
	}
	defer time.AfterFunc(late, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.draining = true
		c.changed.Broadcast()
	}).Stop()
	c.mu.Lock()
	for quiet := false; !quiet && c.ctx.Err() == nil; {
		if c.isAnswering {
			c.changed.Wait()
			continue
		}
		before := c.calls
		c.mu.Unlock()
		select {
		case <-time.After(late / 10):
		case <-ctx.Done():
		}
		c.mu.Lock()
		quiet = !c.isAnswering && (c.draining || c.calls == before)
	}
	c.draining = true
	c.mu.Unlock()
	c.writing.Lock()
	c.closing = true
	c.writing.Unlock()
	_ = c.ws.Close(status, reason)
}
