package lane

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// A knownRequest is the Handler of a request that a handler of an interface has answered from memory: what the next
// requests with the same key have in common with it.
type knownRequest struct {
	stack  *web.Stack
	by     record.Replayer
	route  string
	keyed  bool // requests need a key
	record *record.Repeated
	bytes  int // of what was made of the request's body, or so
}

// Remember implements [record.Place].
func (c *Conn) Remember(r *http.Request, rec *record.Record) {
	c.Keep(r, newKnownRequest(c.lane.stack, r, rec))
}

func newKnownRequest(s *web.Stack, r *http.Request, rec *record.Record) *knownRequest {
	return &knownRequest{
		stack: s, by: rec.Replayer, route: rec.Route, keyed: rec.Keyed,
		record: record.NewRepeated(rec.Route, r), bytes: int(2 * max(0, r.ContentLength)),
	}
}

// A replay is one answer to a request. A connection keeps one, so that a
// hit makes no garbage.
type replay struct {
	rec       record.Record
	answer    respond.Response
	standings limits.Standings
	end       record.End
	id        [64]byte // the room of rec.ID
}

// reset makes n that of a request that has come, and keeps what has room for the next answer.
func (n *replay) reset(start time.Time, own string) {
	room := n.rec.Room[:0]
	*n = replay{}
	n.rec.Room = room
	n.rec.Start, n.rec.Own = start, own
}

// begin finds the answer for the values of a request, where the client may have it from memory.
func (r *knownRequest) begin(n *replay, client *conn.Conn, request *heads.Request, start time.Time) bool {
	n.reset(start, request.Own())
	if !n.admitted(r.stack, client, request, r.keyed) || !r.answered(n) {
		return false
	}
	n.identify(request.Value(heads.RequestID))
	return true
}

// admitted reports whether the client may ask, and counts nothing.
func (n *replay) admitted(s *web.Stack, client *conn.Conn, request *heads.Request, keyed bool) bool {
	n.rec.Session.Arrive(client.Seen())
	admission := s.Admission
	n.rec.Client.Address = admission.Address(client.Address(), request.Values(heads.ForwardedFor))
	if presented := request.Value(heads.APIKey); (keyed || presented != "") && !n.present(admission, presented, keyed) {
		return false
	}
	if sent := web.Given(request.Values(heads.Session)); len(sent) > 0 {
		var ok bool
		if n.rec.Session.Token, ok = session.ParseToken(sent[0]); !ok || len(sent) > 1 {
			return false // its 400 is the interface's
		}
	}
	return request.Size <= web.MaxHeader && admission.WouldAdmit(&n.rec.Client, n.rec.Start)
}

// answered finds the answer for a client that is admitted, and counts that it asks.
func (r *knownRequest) answered(n *replay) bool {
	n.rec.Route = r.route
	if !r.by.Replay(&n.rec, &n.answer) {
		return false
	}
	return r.stack.Admission.AdmitRepeated(&n.standings, &n.rec.Client, n.rec.Start)
}

// present sets the client's key if it counts. It returns false if a required key is not valid.
//
//go:noinline
func (n *replay) present(admission *limits.Admission, key string, required bool) (ok bool) {
	if !required {
		n.rec.Client.Key, _ = admission.KeyWithRate(key)
		return true
	}
	n.rec.Client.Key, ok = admission.KeyOf(key)
	return ok
}

// identify gives the request its id, in memory of n: the client's, or one of our own.
func (n *replay) identify(sent string) {
	var id []byte
	if record.SafeID(sent) {
		id = append(n.id[:0], sent...)
	} else {
		id = record.AppendID(n.id[:0])
	}
	n.rec.ID[0] = unsafe.String(&id[0], len(id)) //nolint:gosec // which is not written before the request has ended
}

// render makes the answer.
func (r *knownRequest) render(n *replay, request *heads.Request) respond.Rendering {
	head := request.Method == http.MethodHead
	if n.answer.Body != nil {
		n.rec.Room = n.answer.Body // which may have grown
	}
	made := r.stack.Render(&n.answer, request.Values(heads.AcceptEncoding), request.Values(heads.IfNoneMatch), head, &n.standings)
	if n.end.Status = made.Status; !head {
		n.end.Size = len(made.Body)
	}
	return made
}

// Answer answers a request of HTTP/1, as net/http would write it.
func (r *knownRequest) Answer(hit *Hit) (ok bool) {
	n, ok := hit.Note.(*replay)
	if !ok {
		n = &replay{}
		hit.Note = n
	}
	request := hit.Request
	if !r.begin(n, hit.Conn.client, request, hit.Start) {
		return false
	}
	made := r.render(n, request)
	b := appendStatusLine(hit.Head, request.Minor, made.Status)
	b = r.stack.AppendOrigin(b, request.Values(heads.Origin))
	if b, ok = made.AppendTo(b); !ok {
		return false
	}
	if request.Close && request.Minor > 0 {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(append(append(b, respond.RequestIDHeader...), ": "...), n.rec.ID[0]...)
	b = append(append(b, "\r\nDate: "...), date(hit.Start).header[0]...)
	b = append(b, "\r\n\r\n"...)
	hit.Head = b
	if request.Method != http.MethodHead {
		hit.Body = made.Body
	}
	return true
}

// Sent counts and logs the hit.
func (r *knownRequest) Sent(hit *Hit) {
	r.finish(hit.Note.(*replay), hit.Request) //nolint:forcetypeassert // Answer's
}

// finish counts and logs a request that is answered.
func (r *knownRequest) finish(n *replay, request *heads.Request) {
	n.end.Method, n.end.Agent = request.Method, record.Agent(request.Value(heads.UserAgent))
	n.end.Took = time.Since(n.rec.Start)
	r.stack.Recorder.End(&n.rec, &n.end, r.record)
}

// appendStatusLine appends the first line of an answer.
func appendStatusLine(b []byte, minor, status int) []byte {
	b = append(append(b, "HTTP/1."...), byte('0'+minor), ' ')
	b = strconv.AppendInt(b, int64(status), 10)
	return append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
}

// A dateText is a time as the Date header has it, which is another one each
// second.
type dateText struct {
	second int64
	header [1]string // in which it is the value
}

var lastDate atomic.Pointer[dateText]

// date is the time as the Date header has it.
func date(t time.Time) *dateText {
	d := lastDate.Load()
	if second := t.Unix(); d == nil || d.second != second {
		d = &dateText{second, [1]string{t.UTC().Format(http.TimeFormat)}}
		lastDate.Store(d)
	}
	return d
}
