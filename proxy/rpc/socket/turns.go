package socket

import (
	"encoding/json"
	"time"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
)

// Queue limits of a connection. While one is reached, the connection is not read.
const (
	maxCalls = 100
	maxBytes = 2 << 20
)

// mayWait is the size of the queue beyond which a message has a deadline, in bytes.
const mayWait = 64 << 10

// MaxConcurrent is the maximum number of calls of a connection or a batch that are answered at the same time. CosmJS sends
// batches of this size.
const MaxConcurrent = 20

// GoroutineCost is the measured memory of a goroutine that answers a call, in bytes.
const GoroutineCost = 12 << 10

// A turn is a message in the queue of a connection.
type turn struct {
	call   jsonrpc.Call
	err    error  // why the call cannot be parsed
	size   int    // of the message, in bytes
	free   func() // releases the message
	answer Answer
	done   chan struct{} // closed when the read ahead has ended; nil if none was started
}

// enqueue queues a call. While the queue is full, it waits. If the queue exceeds mayWait, the connection ends unless the call
// is answered in time: behind answers that the client reads slowly, a message could hold its memory for long.
func (c *conn) enqueue(message []byte, release func()) {
	t := &turn{size: len(message), free: release}
	t.call, t.err = jsonrpc.ReadFirst(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes+t.size > mayWait {
		late := time.AfterFunc(c.handler.o.Read+c.handler.o.Write, c.end)
		t.free = func() {
			late.Stop()
			release()
		}
	}
	for !c.draining && (len(c.turns) >= maxCalls || c.bytes > maxBytes) {
		c.isWaiting.Store(true)
		c.changed.Wait()
	}
	if c.isWaiting.Swap(false) {
		c.hasRead.Store(true)
	}
	if c.draining {
		t.free()
		return
	}
	c.turns = append(c.turns, t)
	c.bytes += t.size
	c.calls++
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
	for i, t := range c.turns[:min(len(c.turns), MaxConcurrent)] {
		if c.isExclusive(t) {
			return
		}
		if i > 0 && t.done == nil {
			release, err := c.stack().HoldStream(GoroutineCost)
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
		c.answerCounted("", nil, func() int {
			answer := jsonrpc.AppendAnswer(nil, nil, jsonrpc.Error(jsonrpc.ParseError, "error unmarshaling request: "+t.err.Error()))
			c.send(answer)
			return len(answer)
		})
	case r.ID == nil: // a notification, which has no answer
		_ = c.handler.o.Methods.Subscription(c.request, "", func() int { return 0 })
	case isSubscriptionMethod(r.Method):
		c.answerCounted(r.Method, r.ID, func() int {
			c.writing.Lock()
			defer c.writing.Unlock()
			answer := c.subscription(r)
			c.write(answer)
			return len(answer)
		})
	default:
		if c.call(t); t.answer.Member == nil {
			c.send(missingParams)
			return
		}
		c.send(jsonrpc.AppendAnswer(nil, r.ID, t.answer.Member))
	}
}

// answerCounted calls do to answer a call about subscriptions, or a message of no method (""), unless the client's limits refuse
// it. It answers a refused one with the refusal.
func (c *conn) answerCounted(method string, id json.RawMessage, do func() (size int)) {
	if refusal := c.handler.o.Methods.Subscription(c.request, method, do); refusal != nil {
		c.send(jsonrpc.AppendAnswer(nil, id, refusal))
	}
}

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
