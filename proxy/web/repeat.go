package web

import (
	"bytes"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
)

// A Memory answers a request that has been answered before, as its handler would.
type Memory interface {
	// Recall fills in the record and the answer where memory has a fresh one. It
	// asks nobody and waits for nothing.
	Recall(rec *Record, a *Answer) bool
}

// NoLane says why no request is answered in the fast lane, "" if some are.
func (s *Stack) NoLane() string {
	switch {
	case s.o.Lane == nil:
		return "it is switched off"
	case s.o.Tracing != nil:
		return "traces are collected"
	case s.admission.SharesAddresses():
		return "the limit of addresses is kept in Redis"
	}
	return ""
}

// remember leaves behind what is needed to answer the same bytes again.
func (s *Stack) remember(c *gin.Context, rec *Record) {
	if rec.Outcome != cache.Hit.String() || rec.Store != "memory" {
		return
	}
	header := c.Request.Header
	r := &repetition{
		stack: s, memory: rec.memory, route: rec.Route, asked: record.AskedBy(c.Request),
		asker: askerOf(c.Request), key: rec.key, forwarded: header[limits.ForwardedFor], cors: s.originLines(header),
	}
	if len(header[RequestIDHeader]) > 0 && header[RequestIDHeader][0] == rec.ID[0] {
		r.id = rec.ID[0]
	}
	r.template = record.NewTemplate(r.route, r.key.Name, &r.asked)
	rec.conn.Remember(r)
}

// A repetition is all of a request that its answer depends on, but for what may
// have changed when it comes again: memory, the tip, limits and the time.
type repetition struct {
	stack  *Stack
	memory Memory
	route  string
	asked  record.Asked
	id     string // the client's own; "" if there was none
	asker  asker
	cors   []byte // header lines

	template  *record.Template
	key       limits.Key // whose it is
	forwarded []string   // X-Forwarded-For
}

// A replay is one answer to a repeated request. A connection keeps one, so that a
// hit makes no garbage.
type replay struct {
	rec    Record
	answer Answer
	client limits.Client
	status int
	size   int
	id     []byte
	room   [32]byte // for an id of our own
	stands limits.Standings
	line   []byte // of the log
}

// Answer answers the request once more.
func (r *repetition) Answer(hit *lane.Hit) (ok bool) {
	n, ok := hit.Note.(*replay)
	if !ok {
		n = &replay{}
		hit.Note = n
	}
	admission := r.stack.admission
	*n = replay{rec: Record{Record: record.Record{Route: r.route, Start: hit.Start, Tenant: r.key.Name}}, line: n.line}
	n.rec.arrive(hit.Conn.Owner.(*Conn)) //nolint:forcetypeassert // NewConn's
	n.client = limits.Client{Address: admission.Address(n.rec.client.address, r.forwarded), Key: r.key}
	if !admission.WouldAdmit(&n.client, hit.Start) || !r.memory.Recall(&n.rec, &n.answer) {
		return false
	}
	if n.stands, ok = admission.AdmitRepeated(&n.client, hit.Start); !ok {
		return false
	}
	n.identify(r.id, hit.ID)
	return r.render(hit, n)
}

// render writes the answer as net/http would.
func (r *repetition) render(hit *lane.Hit, n *replay) (ok bool) {
	h := collect()
	status, body := r.stack.render(h, &n.answer, &r.asker)
	n.status = status
	h.setStandings(&n.stands)
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

// setStandings tells how the client stands with its limits.
func (h *headers) setStandings(s *limits.Standings) {
	all := [...]*limits.Standing{&s.Address, &s.Key}
	for _, standing := range all {
		if standing.Limited() {
			h.finish(standing.AppendText(h.begin(limits.StandingHeader)))
		}
	}
	for _, standing := range all {
		if standing.Limited() {
			h.finish(standing.AppendPolicy(h.begin(limits.PolicyHeader)))
		}
	}
}

// appendTo appends the headers as they are sent, and must be the last that is
// done with h. ok is false if one of them cannot be sent as it is.
func (h *headers) appendTo(b []byte) (text []byte, ok bool) {
	start := 0
	for i := range h.n {
		b = append(append(b, h.name[i]...), ": "...)
		b = append(append(b, h.text[start:h.end[i]]...), "\r\n"...)
		start = h.end[i]
	}
	ok = bytes.IndexByte(h.text, '\n') < 0 && bytes.IndexByte(h.text, '\r') < 0
	collectors.Put(h)
	return b, ok
}

// Sent counts and logs the hit.
func (r *repetition) Sent(hit *lane.Hit) {
	n := hit.Note.(*replay) //nolint:forcetypeassert // Answer's
	n.rec.leave()
	end := record.End{Asked: r.asked, Client: n.client.Address, Status: n.status, Size: n.size, Took: time.Since(hit.Start), ID: n.id}
	n.line = r.stack.recorder.EndRepeated(r.template, &n.rec.Record, &end, n.line)
}

// identify gives the request its id: the client's, which may be another each
// time, or one of our own.
func (n *replay) identify(own string, sent []byte) {
	switch {
	case sent != nil:
		n.id = sent
	case own != "":
		n.id = append(n.room[:0], own...)
	default:
		n.id = appendID(n.room[:0])
	}
}

// appendStatusLine appends the first line of an answer.
func appendStatusLine(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	return append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
}

// A dateText is a time as the Date header has it, which is another one each
// second.
type dateText struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dateText]

// appendDate appends the time as the Date header has it.
func appendDate(b []byte, t time.Time) []byte {
	d := lastDate.Load()
	if second := t.Unix(); d == nil || d.second != second {
		d = &dateText{second, t.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return append(b, d.text...)
}
