package lane

import (
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/record"
)

// A stream holds the state of serving an HTTP/2 request.
type stream struct {
	request heads.Request
	key     []byte
	replay  replay
}

var streams = sync.Pool{New: func() any { return new(stream) }}

// Serve implements [web.Lane]. HTTP/2 and HTTP/1 share the table.
func (l *Lane) Serve(client *conn.Conn, w http.ResponseWriter, r *http.Request) (answered bool, sampling record.Sampling) {
	if c, ok := client.LaneConn().(*Conn); ok {
		c.BeginRequest(r)
		sampling, c.sampling = c.sampling, record.Undecided
	}
	if r.ProtoMajor < 2 || l.draining.Load() {
		return false, sampling
	}
	defer func() { _ = recover() }() // the handler then panics as well, and reports the panic
	s := streams.Get().(*stream)     //nolint:forcetypeassert // the pool has no others
	defer streams.Put(s)
	if !s.request.ReadFrom(r) {
		return false, record.Undecided
	}
	s.key = s.request.AppendKey(s.key[:0])
	known, ok := l.table.Load().get(s.key).(*knownRequest)
	switch {
	case !ok:
		l.requests.unknown.Inc()
		return false, record.Undecided
	case !known.begin(&s.replay, client, &s.request, time.Now()):
		l.requests.declined.Inc()
		return false, s.replay.rec.Sampling
	}
	l.requests.answered.Inc()
	known.serveHTTP2(w, s)
	return true, record.NotSampled
}

// serveHTTP2 writes the response. The caller has set the CORS headers.
func (r *knownRequest) serveHTTP2(w http.ResponseWriter, s *stream) {
	out := r.render(&s.replay, &s.request)
	h := w.Header()
	out.WriteTo(h, s.replay.rec.ID[0])
	h["Date"] = date(s.replay.rec.Start).header[:]
	w.WriteHeader(out.Status)
	if s.request.Method != http.MethodHead {
		_, _ = w.Write(out.Body) // fails only if the client has disconnected
	}
	r.finish(&s.replay, &s.request)
}

// Put implements [record.LaneSlot].
func (t *table) Put(r *http.Request, head record.Head, rec *record.Record) {
	var request heads.Request
	if request.ReadFrom(r) {
		t.put(string(request.AppendKey(nil)), newKnownRequest(t.lane.stack, r, head, rec))
	}
}
