package stream

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// A client is one stream.
type client struct {
	h      *Handler
	w      http.ResponseWriter
	follow []subscription
	woken  chan struct{} // holds one token while there may be something new
}

// A subscription is a topic, and what the client has of it.
type subscription struct {
	*topic
	path    string // under which /live tells of it
	answer  string // tags of the last events
	failure string
}

func (h *Handler) newClient(c *gin.Context, sources []Source) *client {
	cl := &client{h: h, w: c.Writer, woken: make(chan struct{}, 1)}
	_, had, _ := strings.Cut(c.Request.Header.Get(lastEventHeader), ".")
	for _, s := range sources {
		cl.follow = append(cl.follow, subscription{topic: h.topics.subscribe(answersOf(s.Feed), cl), path: s.Path, answer: had})
	}
	if wantsBlocks(c.Request) {
		cl.follow = append(cl.follow, subscription{topic: h.topics.subscribe(blocksOf(h.o.Heights), cl)})
	}
	return cl
}

func (cl *client) leave() {
	for _, s := range cl.follow {
		cl.h.topics.unsubscribe(s.topic, cl)
	}
}

// notify says that there is something new.
func (cl *client) notify() {
	select {
	case cl.woken <- struct{}{}:
	default:
	}
}

// run writes events until the client leaves, cannot be written to, or the server
// drains.
func (cl *client) run(ctx context.Context, draining <-chan struct{}) {
	idle := time.NewTicker(cl.h.o.KeepAlive)
	defer idle.Stop()
	_ = http.NewResponseController(cl.w).SetReadDeadline(time.Time{}) // that of the request's head
	cl.notify()
	for {
		text := ""
		select {
		case <-ctx.Done():
			return
		case <-draining:
			_ = cl.send(func(w *bufio.Writer) { _, _ = w.WriteString(retryAfter(0)) })
			return
		case <-cl.woken:
		case <-idle.C:
			text = ":\n\n"
		}
		if cl.send(func(w *bufio.Writer) { _, _ = w.WriteString(text); cl.writeNews(w) }) != nil {
			return
		}
	}
}

// writeNews writes what the client does not have yet.
func (cl *client) writeNews(w *bufio.Writer) {
	for i := range cl.follow {
		s := &cl.follow[i]
		n := s.news.Load()
		if e := n.answer; e != nil && e.tag != s.answer {
			e.writeTo(w, s.path)
			s.answer = e.tag
		}
		switch {
		case n.failure == nil:
			s.failure = ""
		case n.failure.tag != s.failure:
			n.failure.writeTo(w, s.path)
			s.failure = n.failure.tag
		}
	}
}

// bufferSize holds an event of the usual size, so that it leaves in one piece.
const bufferSize = 2 << 10

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}

// send writes to the client, within the time for it. After an error the stream is
// over.
func (cl *client) send(write func(w *bufio.Writer)) error {
	w := buffers.Get().(*bufio.Writer) //nolint:forcetypeassert // the pool has no others
	defer buffers.Put(w)
	w.Reset(cl.w)
	rc := http.NewResponseController(cl.w)
	if err := rc.SetWriteDeadline(time.Now().Add(cl.h.o.Write)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	write(w)
	if err := w.Flush(); err != nil {
		return err
	}
	return rc.Flush()
}
