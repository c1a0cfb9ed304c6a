package web

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/lane"
)

// A Memory answers a request that has been answered before, as its handler would.
type Memory interface {
	// Recall fills in the record and the answer where memory has a fresh one. It
	// asks nobody and waits for nothing.
	Recall(rec *Record, a *Answer) bool
}

// Called is to be told every request that comes from a client's connection.
func Called(r *http.Request) {
	if c := connOf(r); c != nil && c.lane != nil {
		c.lane.Called(r)
	}
}

// laneOf is where the answer to a request may be repeated, nil for nowhere. Who
// collects traces wants to decide for each request whether it is collected.
func (s *Stack) laneOf(r *http.Request) *lane.Conn {
	if s.tracer != nil {
		return nil
	}
	if c := connOf(r); c != nil && c.lane != nil && c.lane.Wants() {
		return c.lane
	}
	return nil
}

// NoLane says why no request is answered in the fast lane, "" if some are.
func (s *Stack) NoLane() string {
	limits := s.limits.Load()
	switch {
	case s.o.Lane == nil:
		return "it is switched off"
	case s.tracer != nil:
		return "traces are collected"
	case s.limiter.shared != nil && limits.Address != Rate{}:
		return "the limit of addresses is kept in Redis"
	}
	return ""
}

// Repeatable tells a handler whether a Memory would be of use.
func (rec *Record) Repeatable() bool { return rec.conn != nil }

// Once keeps the request from being answered again without its handler.
func (rec *Record) Once() { rec.conn = nil }

// Repeat has the request answered by m when it comes again, if memory answers it
// now.
func (rec *Record) Repeat(m Memory) { rec.memory = m }

// remember leaves behind what is needed to answer the same bytes again.
func (s *Stack) remember(c *gin.Context, rec *Record) {
	if rec.memory == nil || rec.err != nil || rec.outcome != cache.Hit.String() || rec.store != "memory" {
		return
	}
	header := c.Request.Header
	r := &repetition{
		stack: s, memory: rec.memory, route: rec.route, asked: askedBy(c.Request),
		asker: askerOf(c.Request), key: rec.key, keyed: rec.tenant != "", forwarded: header[forwardedFor], cors: s.originLines(header),
	}
	if len(header[RequestIDHeader]) > 0 && header[RequestIDHeader][0] == rec.id[0] {
		r.id = rec.id[0]
	}
	r.line = s.log.lineOf(r)
	rec.conn.Remember(r)
}

// A repetition is all of a request that its answer depends on, but for what may
// have changed when it comes again: memory, the tip, limits and the time.
type repetition struct {
	stack  *Stack
	memory Memory
	route  string
	asked  asked
	id     string // the client's own; "" if there was none
	asker  asker
	cors   []byte // header lines
	line   logLine

	key       Key // whose it is
	keyed     bool
	forwarded []string // X-Forwarded-For
}

// A rehearsal is what one hit needs: a hit makes no garbage.
type rehearsal struct {
	rec    Record
	answer Answer
	status int
	size   int
	id     []byte
	room   [32]byte // for an id of our own
	told   standings
	line   []byte // of the log
}

// Answer answers the request once more.
func (r *repetition) Answer(hit *lane.Hit) bool {
	n, ok := hit.Note.(*rehearsal)
	if !ok {
		n = &rehearsal{}
		hit.Note = n
	}
	*n = rehearsal{rec: Record{route: r.route, Start: hit.Start, tenant: r.key.Name}, line: n.line}
	n.rec.client, _ = hit.Conn.Owner.(*Conn)
	if !r.stack.wouldAdmit(r, hit) || !r.memory.Recall(&n.rec, &n.answer) || !r.stack.admitAgain(r, hit, &n.told) {
		return false
	}
	n.identify(r.id, hit.ID)
	return r.render(hit, n)
}

// render writes the answer as net/http would.
func (r *repetition) render(hit *lane.Hit, n *rehearsal) (ok bool) {
	h := collect()
	status, body := r.stack.render(h, &n.answer, &r.asker)
	n.status, n.told.headers = status, h
	n.told.add()
	b := append(appendStatusLine(hit.Head, status), r.cors...)
	b, ok = h.appendTo(b)
	b = append(append(b, RequestIDHeader+": "...), n.id...)
	b = appendDate(append(b, "\r\nDate: "...), hit.Start)
	b = append(b, "\r\n\r\n"...)
	hit.Head = b
	if !r.asker.head {
		hit.Body, n.size = body, len(body)
	}
	return ok
}

// Sent counts and logs the hit.
func (r *repetition) Sent(hit *lane.Hit) {
	n := hit.Note.(*rehearsal) //nolint:forcetypeassert // Answer's
	end := ended{asked: r.asked, client: r.stack.clientAgain(r, hit), status: n.status, size: n.size, took: time.Since(hit.Start), id: n.id}
	r.stack.metrics.observe(&n.rec, &end)
	r.stack.log.writeAgain(r, n, &end)
}

// identify gives the request its id: the client's, which may be another each
// time, or one of our own.
func (n *rehearsal) identify(own string, sent []byte) {
	switch {
	case sent != nil:
		n.id = sent
	case own != "":
		n.id = append(n.room[:0], own...)
	default:
		n.id = appendID(n.room[:0])
	}
}
