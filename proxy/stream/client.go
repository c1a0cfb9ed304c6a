package stream

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// client is one open stream.
type client struct {
	follower
	w         http.ResponseWriter
	control   *http.ResponseController // of w
	out       output                   // writes to w
	subs      []subscription
	livePaths []subscription // the part of subs that the id covers: all paths of /live; empty for a single path
	id        []byte         // last id event written
	next      int            // index in subs of the first subscription to write
	writeTime time.Duration  // from setting the write deadline until it passes
	deadline  time.Time      // write deadline

	keepAliveTimer *time.Timer // until the next comment
	keepAliveDue   atomic.Bool // a comment is due
	waitTimer      *time.Timer // until the limits allow the next event, or answers have been awaited for long enough
	blockEvents    blockEvents // used if the client asked for block events

	minHeight int64     // block that the client has seen in its session or requires; 0 for none or after giveUp
	giveUp    time.Time // when answers before minHeight are sent nevertheless
}

// serve streams to the client until it disconnects.
func (cl *client) serve(r *web.Request, sources []Source) error {
	if err := cl.admit(); err != nil {
		return err
	}
	defer cl.leave()
	if err := cl.subscribe(r, sources); err != nil {
		return err
	}
	setHeaders(cl.w.Header(), cl.out.gzip)
	if cl.resumeSession(r, sources) {
		cl.w.Header().Set(session.ResetHeader, "true")
	}
	cl.w.WriteHeader(http.StatusOK)
	cl.out.begin()
	r.Record.Streamed = true
	cl.run(r.Context())
	return nil
}

// subscribe subscribes the client to every source. It fails if there is no memory for a topic, or if an option is malformed.
func (cl *client) subscribe(r *web.Request, sources []Source) error {
	ts := &cl.h.topics
	all := make([]source, len(sources), len(sources)+1)
	for i := range sources {
		all[i] = feedSource(sources[i].Feed)
	}
	switch blocks := r.Options.Get(BlocksParameter); blocks {
	case "", "0", "false":
	case "1", "true":
		cl.blockEvents.wanted = true
	default:
		return failure.BadInput("%s is %q; expected true or false", BlocksParameter, web.Short(blocks))
	}
	if cl.blockEvents.wanted {
		all = append(all, blockSource(cl.h.o.Heights))
	}
	cl.subs = make([]subscription, len(all))
	for i := range all {
		s := &cl.subs[i]
		t, err := ts.subscribe(all[i], &cl.follower, s)
		if err != nil {
			return refusal(err, errFull)
		}
		s.topic = t
		if cl.blockEvents.wanted {
			s.topic.framed.Add(1)
			cl.blockEvents.blocks = s
		}
	}
	cl.resume(r.Header.Get(lastEventHeader), sources)
	return nil
}

// resume records what the client already has, according to the id of the last event it received.
func (cl *client) resume(id string, sources []Source) {
	for i := range sources {
		cl.subs[i].path, cl.subs[i].name = sources[i].Path, digestOf([]byte(sources[i].Path))
	}
	if len(sources) == 1 {
		_, cl.subs[0].had, _ = strings.Cut(id, ".")
		return
	}
	cl.livePaths = cl.subs[:len(sources)]
	cl.id = idEvent(cl.livePaths)
	resumeAfter(id, cl.livePaths)
}

func (cl *client) leave() {
	for i := range cl.subs {
		if t := cl.subs[i].topic; t != nil {
			if cl.blockEvents.wanted {
				t.framed.Add(-1)
			}
			cl.h.topics.unsubscribe(t, &cl.follower)
		}
	}
}

// run writes events until the client disconnects or is refused, a write fails, memory is short, or the server drains. One channel
// carries all wake-ups: a select over several channels, including a ticker's, would cost as much as the rest of an
// event except its system call.
func (cl *client) run(ctx context.Context) {
	defer context.AfterFunc(ctx, cl.notify)()
	cl.keepAliveTimer = time.AfterFunc(cl.h.o.KeepAlive, func() { cl.keepAliveDue.Store(true); cl.notify() })
	defer cl.keepAliveTimer.Stop()
	cl.waitTimer = time.AfterFunc(0, cl.notify) // write what is already available
	defer cl.waitTimer.Stop()
	_ = cl.control.SetReadDeadline(time.Time{}) // it was set for the request header
	for range cl.woken {
		last := cl.h.drained.Load() || cl.ended.Load() || !cl.admitted()
		if ctx.Err() != nil || cl.send(ctx, last) != nil || last {
			return
		}
	}
}

// send writes everything the client does not have yet. With last it ends the stream and says when to reconnect. An
// error ends the stream.
func (cl *client) send(ctx context.Context, last bool) error {
	if err := cl.extendDeadline(time.Now()); err != nil {
		return err
	}
	if cl.keepAliveDue.Swap(false) {
		cl.keepAliveTimer.Reset(cl.h.o.KeepAlive)
		cl.out.text([]byte(":\n\n")) // a comment
	}
	switch {
	case last:
		cl.out.text([]byte(retryAfter(0)))
		cl.out.end()
	case cl.blockEvents.wanted && cl.h.o.Heights.Tip().Known:
		cl.writeFrame(ctx)
	default:
		cl.writeChanges(ctx)
	}
	_ = cl.control.Flush() // cl.out knows whether a write failed
	return cl.out.failed
}

// extendDeadline moves the write deadline if less than half of the write time is left. Moving it for every event would
// cost too much. The comments of KeepAlive move it on idle streams.
func (cl *client) extendDeadline(now time.Time) error {
	if cl.deadline.Sub(now) >= cl.writeTime/2 {
		return nil
	}
	cl.deadline = now.Add(cl.writeTime)
	return cl.control.SetWriteDeadline(cl.deadline)
}

// writeChanges writes the answers and failures that the client does not have yet, as far as its limits allow. It starts
// with the topic at which the limits ended the previous call.
func (cl *client) writeChanges(ctx context.Context) {
	answers := cl.answers()
	for i := range answers {
		at := (cl.next + i) % len(answers)
		if wait := cl.writeTopic(ctx, &answers[at]); wait > 0 {
			cl.next = at
			cl.waitTimer.Reset(wait)
			break
		}
	}
	cl.writeID()
}

// answers returns the subscriptions to answers, without the one to blocks.
func (cl *client) answers() []subscription {
	if cl.blockEvents.wanted {
		return cl.subs[:len(cl.subs)-1]
	}
	return cl.subs
}

// writeID writes an id event if the id differs from the last one.
func (cl *client) writeID() {
	if id := idEvent(cl.livePaths); !bytes.Equal(id, cl.id) {
		cl.out.text(id)
		cl.id = id
	}
}

// writeTopic writes what the client does not have yet of a topic. If its limits do not allow that, the time to
// wait is returned.
func (cl *client) writeTopic(ctx context.Context, s *subscription) (wait time.Duration) {
	n := s.current(cl.h.o.Heights.Tip().Epoch)
	if n.answer == nil && n.failure == nil { // not read yet, or not since a rollback
		return 0
	}
	if n.answer != nil && n.pinned == 0 && !s.topic.undated {
		if wait = cl.waitForSession(n.height); wait > 0 {
			return wait
		}
	}
	recovered := s.failure != 0 && n.failure == nil // the client does not know that its answer is valid again
	if e := n.answer; e != nil && (e.digest != s.answer || recovered) {
		if e = s.hold(); e == nil {
			return 0 // after a rollback, until the answer is read again
		}
		wait = cl.writeAnswer(ctx, s, e)
		if e.release(); wait > 0 {
			return wait
		}
	}
	switch {
	case n.failure == nil:
		s.failure = 0
	case n.failure.digest != s.failure:
		return cl.writeFailure(ctx, s, n.failure)
	}
	return 0
}

// writeAnswer writes an answer, unless the client named its tag when it connected.
func (cl *client) writeAnswer(ctx context.Context, s *subscription, e *event) (wait time.Duration) {
	if s.had == "" || e.tag != s.had {
		if wait = cl.spendFor(ctx, s); wait > 0 {
			return wait
		}
		cl.out.event(e, s.path)
	}
	s.answer, s.had = e.digest, ""
	return 0
}

func (cl *client) writeFailure(ctx context.Context, s *subscription, e *event) (wait time.Duration) {
	if wait = cl.spendFor(ctx, s); wait == 0 {
		cl.out.event(e, s.path)
		s.failure = e.digest
	}
	return wait
}

// hold returns the topic's newest answer, held; nil if it has none.
func (s *subscription) hold() *event {
	for {
		if e := s.topic.state.Load().answer; e == nil || e.hold() {
			return e
		}
	}
}
