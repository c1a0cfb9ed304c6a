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
)

// A client is one stream.
type client struct {
	h      *Handler
	live   []subscription // of follow, those of several paths; empty for one path
	id     []byte         // the last event that tells what the client has of these
	w      gin.ResponseWriter
	follow []subscription
	woken  chan struct{} // holds one token while there may be something to do
	until  time.Time     // the deadline of writes

	silence *time.Timer // to the next comment
	idle    atomic.Bool // a comment is due
}

// A subscription is a topic, and what the client has of it.
type subscription struct {
	*topic
	path    string // the name of the topic on /live
	name    digest // of the path: an id that is used for other paths is unknown by it
	had     string // the tag of the answer that it came with, until it is compared
	answer  digest // of the last events; 0 for none
	failure digest
}

func (h *Handler) newClient(c *gin.Context, sources []Source) *client {
	cl := &client{h: h, w: c.Writer, woken: make(chan struct{}, 1)}
	for _, s := range sources {
		cl.follow = append(cl.follow, subscription{topic: h.topics.subscribe(answersOf(s.Feed), cl), path: s.Path, name: digestOf([]byte(s.Path))})
	}
	if wantsBlocks(c.Request) {
		cl.follow = append(cl.follow, subscription{topic: h.topics.subscribe(blocksOf(h.o.Heights), cl)})
	}
	if id := c.Request.Header.Get(lastEventHeader); len(sources) == 1 {
		_, cl.follow[0].had, _ = strings.Cut(id, ".")
	} else {
		cl.live = cl.follow[:len(sources)]
		cl.id = idEvent(cl.live)
		resumeAfter(id, cl.live)
	}
	return cl
}

func (cl *client) leave() {
	for _, s := range cl.follow {
		cl.h.topics.unsubscribe(s.topic, cl)
	}
}

// notify says that there may be something to do.
func (cl *client) notify() {
	select {
	case cl.woken <- struct{}{}:
	default:
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
	_ = http.NewResponseController(cl.w).SetReadDeadline(time.Time{}) // that of the request's head
	cl.notify()
	for range cl.woken {
		last := cl.h.drained.Load()
		if ctx.Err() != nil || cl.send(last) != nil || last {
			return
		}
	}
}

// send writes what the client does not have yet, and for the last time when it may
// come again. After an error the stream is over.
func (cl *client) send(last bool) error {
	if err := cl.allowTime(time.Now()); err != nil {
		return err
	}
	var failed error
	write := func(text []byte) {
		if failed == nil {
			_, failed = cl.w.Write(text)
		}
	}
	if cl.idle.Swap(false) {
		cl.silence.Reset(cl.h.o.KeepAlive)
		write(comment)
	}
	if last {
		write([]byte(retryAfter(0)))
	} else {
		cl.writeNews(write)
	}
	cl.w.Flush()
	return failed
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

// writeNews writes what the client does not have yet.
func (cl *client) writeNews(write func(text []byte)) {
	for i := range cl.follow {
		s := &cl.follow[i]
		n := s.news.Load()
		recovered := s.failure != 0 && n.failure == nil // the client cannot tell that its answer holds again
		if e := n.answer; e != nil && (e.digest != s.answer || recovered) {
			if s.had == "" || e.tag != s.had {
				write(e.text(s.path))
			}
			s.answer, s.had = e.digest, ""
		}
		switch {
		case n.failure == nil:
			s.failure = 0
		case n.failure.digest != s.failure:
			write(n.failure.text(s.path))
			s.failure = n.failure.digest
		}
	}
	if id := idEvent(cl.live); !bytes.Equal(id, cl.id) {
		write(id)
		cl.id = id
	}
}
