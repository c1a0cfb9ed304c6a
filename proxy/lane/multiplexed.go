package lane

import (
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/record"
)

// A stream is what a request of HTTP/2 is answered with.
type stream struct {
	request heads.Request
	key     []byte
	replay  replay
}

var streams = sync.Pool{New: func() any { return new(stream) }}

// Serve implements [web.Lane]. Requests of HTTP/2 and HTTP/1 share their answers.
func (l *Lane) Serve(client *conn.Conn, on conn.LaneConn, w http.ResponseWriter, r *http.Request) bool {
	if c, ok := on.(*Conn); ok {
		c.Called(r)
	}
	if r.ProtoMajor < 2 || l.draining.Load() {
		return false
	}
	s := streams.Get().(*stream) //nolint:forcetypeassert // the pool has no others
	defer streams.Put(s)
	if !s.request.ReadFrom(r) {
		return false
	}
	s.key = s.request.AppendKey(s.key[:0])
	known, ok := l.table.Load().find(s.key).(*knownRequest)
	switch {
	case !ok:
		l.requests.unknown.Inc()
		return false
	case !known.begin(&s.replay, client, &s.request, time.Now()):
		l.requests.declined.Inc()
		return false
	}
	l.requests.answered.Inc()
	known.serve(w, s)
	return true
}

// serve writes the answer. The headers for the request's origin are set.
func (r *knownRequest) serve(w http.ResponseWriter, s *stream) {
	made := r.render(&s.replay, &s.request)
	h := w.Header()
	made.WriteTo(h, s.replay.rec.ID[0])
	h["Date"] = date(s.replay.rec.Start).header[:]
	w.WriteHeader(made.Status)
	if s.request.Method != http.MethodHead {
		_, _ = w.Write(made.Body) // fails only when the client has left
	}
	r.finish(&s.replay, &s.request)
}

// Remember implements [record.Place].
func (t *table) Remember(r *http.Request, rec *record.Record) {
	var request heads.Request
	if request.ReadFrom(r) {
		t.put(string(request.AppendKey(nil)), newKnownRequest(t.lane.stack, r, rec))
	}
}
