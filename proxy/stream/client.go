package stream

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// A client is one stream.
type client struct {
	follower
	resumption
	w      gin.ResponseWriter
	out    output // to w
	follow []subscription
	live   []subscription // of follow, those of several paths; empty for one path
	id     []byte         // the last event that tells what the client has of these
	next   int            // of follow, the one that events are written of first
	until  time.Time      // the deadline of writes

	silence     *time.Timer // to the next comment
	idle        atomic.Bool // a comment is due
	affordable  *time.Timer // to the next event that it may afford
	blockEvents blockEvents // where it asked for blocks
}

// serve streams to the client until it leaves.
func (cl *client) serve(r *http.Request, rec *record.Record, sources []Source) error {
	if err := cl.admit(); err != nil {
		return err
	}
	defer cl.leave()
	if err := cl.subscribe(r, sources); err != nil {
		return err
	}
	setHeaders(cl.w.Header(), cl.out.gzip)
	if cl.resumeSession(r) {
		cl.w.Header().Set(session.ResetHeader, "true")
	}
	cl.w.WriteHeader(http.StatusOK)
	cl.out.begin()
	rec.Streamed = true
	cl.run(r.Context())
	return nil
}

// subscribe subscribes the client to all that it asks for. It is errFull where there is no
// room for so many topics.
func (cl *client) subscribe(r *http.Request, sources []Source) error {
	ts := &cl.h.topics
	subjects := make([]subject, len(sources), len(sources)+1)
	for i := range sources {
		subjects[i] = ts.answersOf(sources[i].Feed)
	}
	blocks := web.Taken(r).Get(BlocksParameter)
	if cl.blockEvents.wanted = blocks == "1" || blocks == "true"; cl.blockEvents.wanted {
		subjects = append(subjects, blocksOf(cl.h.o.Heights))
	}
	cl.follow = make([]subscription, len(subjects))
	for i := range subjects {
		s := &cl.follow[i]
		if s.topic = ts.subscribe(subjects[i], &cl.follower, s); s.topic == nil {
			return errFull
		}
		if cl.blockEvents.wanted {
			s.framed.Add(1)
			cl.blockEvents.blocks = s
		}
	}
	cl.resume(r.Header.Get(lastEventHeader), sources)
	return nil
}

// resume takes note of what the client has, by the id of the last event that it got.
func (cl *client) resume(id string, sources []Source) {
	for i := range sources {
		cl.follow[i].path, cl.follow[i].name = sources[i].Path, digestOf([]byte(sources[i].Path))
	}
	if len(sources) == 1 {
		_, cl.follow[0].had, _ = strings.Cut(id, ".")
		return
	}
	cl.live = cl.follow[:len(sources)]
	cl.id = idEvent(cl.live)
	resumeAfter(id, cl.live)
}

func (cl *client) leave() {
	for i := range cl.follow {
		if t := cl.follow[i].topic; t != nil {
			if cl.blockEvents.wanted {
				t.framed.Add(-1)
			}
			cl.h.topics.unsubscribe(t, &cl.follower)
		}
	}
}

// run writes events until the client leaves, cannot be written to, or the server
// drains. Whatever happens wakes it by the one channel: to select among several,
// a ticker's among them, takes as long as the rest of an event besides its system
// call.
func (cl *client) run(ctx context.Context) {
	defer context.AfterFunc(ctx, cl.notify)()
	cl.silence = time.AfterFunc(cl.h.o.KeepAlive, func() { cl.idle.Store(true); cl.notify() })
	defer cl.silence.Stop()
	cl.affordable = time.AfterFunc(0, cl.notify) // for what was there before
	defer cl.affordable.Stop()
	cl.blockEvents.late = time.AfterFunc(time.Hour, cl.notify)
	defer cl.blockEvents.late.Stop()
	_ = http.NewResponseController(cl.w).SetReadDeadline(time.Time{}) // that of the request's head
	for range cl.woken {
		last := cl.h.drained.Load() || !cl.admitted()
		if ctx.Err() != nil || cl.send(ctx, last) != nil || last {
			return
		}
	}
}

// send writes what the client does not have yet, and for the last time when it may
// come again. After an error the stream is over.
func (cl *client) send(ctx context.Context, last bool) error {
	if err := cl.allowTime(time.Now()); err != nil {
		return err
	}
	if cl.idle.Swap(false) {
		cl.silence.Reset(cl.h.o.KeepAlive)
		cl.out.text(comment)
	}
	switch {
	case last:
		cl.out.text([]byte(retryAfter(0)))
		cl.out.end()
	case cl.blockEvents.wanted && cl.h.o.Heights.Tip().Known:
		cl.writeFrame(ctx)
	default:
		cl.writeNews(ctx)
	}
	cl.w.Flush()
	return cl.out.failed
}

var comment = []byte(":\n\n")

// allowTime leaves at least half of the time for an event, and at most all of it:
// a deadline is not set anew for each event.
func (cl *client) allowTime(now time.Time) error {
	if cl.until.Sub(now) >= cl.h.o.Write/2 {
		return nil
	}
	cl.until = now.Add(cl.h.o.Write)
	err := http.NewResponseController(cl.w).SetWriteDeadline(cl.until)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// writeNews writes what the client does not have yet, as long as it can pay for that.
// What it cannot pay for it gets later, as it is then, and first.
func (cl *client) writeNews(ctx context.Context) {
	answers := cl.answers()
	for i := range answers {
		at := (cl.next + i) % len(answers)
		if wait := cl.tell(ctx, &answers[at]); wait > 0 {
			cl.next = at
			cl.affordable.Reset(wait)
			break
		}
	}
	cl.writeID()
}

// answers are the subscriptions to answers, without that to blocks.
func (cl *client) answers() []subscription {
	if cl.blockEvents.wanted {
		return cl.follow[:len(cl.follow)-1]
	}
	return cl.follow
}

// writeID tells the client what it has, where that is not what it was told last.
func (cl *client) writeID() {
	if id := idEvent(cl.live); !bytes.Equal(id, cl.id) {
		cl.out.text(id)
		cl.id = id
	}
}

// tell writes what the client does not have yet of a topic. Where it cannot pay, it is
// the time to wait.
func (cl *client) tell(ctx context.Context, s *subscription) (wait time.Duration) {
	n := s.current(cl.h.o.Heights.Tip().Epoch)
	if n.answer == nil && n.failure == nil { // not read yet, or not since the chain was rolled back
		return 0
	}
	if n.answer != nil && s.subject.at == 0 && !s.undated {
		if wait = cl.early(n.height); wait > 0 {
			return wait
		}
	}
	recovered := s.failure != 0 && n.failure == nil // the client cannot tell that its answer holds again
	if e := n.answer; e != nil && (e.digest != s.answer || recovered) {
		if e = s.hold(); e == nil {
			return 0 // the chain was rolled back, and another answer is read
		}
		wait = cl.tellAnswer(ctx, s, e)
		if e.release(); wait > 0 {
			return wait
		}
	}
	switch {
	case n.failure == nil:
		s.failure = 0
	case n.failure.digest != s.failure:
		return cl.tellFailure(ctx, s, n.failure)
	}
	return 0
}

// tellAnswer writes an answer, unless it is the one that the client came with.
func (cl *client) tellAnswer(ctx context.Context, s *subscription, e *event) (wait time.Duration) {
	if s.had == "" || e.tag != s.had {
		if wait = cl.spendFor(ctx, s); wait > 0 {
			return wait
		}
		cl.out.event(e, s.path)
	}
	s.answer, s.had = e.digest, ""
	return 0
}

func (cl *client) tellFailure(ctx context.Context, s *subscription, e *event) (wait time.Duration) {
	if wait = cl.spendFor(ctx, s); wait == 0 {
		cl.out.event(e, s.path)
		s.failure = e.digest
	}
	return wait
}

// hold gives the topic's newest answer, held; nil where there is none any more.
func (s *subscription) hold() *event {
	for {
		if e := s.state.Load().answer; e == nil || e.hold() {
			return e
		}
	}
}
