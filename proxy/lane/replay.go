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

// A knownRequest is the Handler of a request that the stack has answered from memory.
type knownRequest struct {
	stack    *web.Stack
	replayer record.Replayer
	route    string
	keyed    bool // the route requires an API key
	charge   limits.Charge
	record   *record.Repeated
	bytes    int // approximate size of what the replayer retains of the request's body
}

// Put implements [record.LaneSlot].
func (c *Conn) Put(r *http.Request, head record.Head, rec *record.Record) {
	c.PutHandler(r, newKnownRequest(c.lane.stack, r, head, rec))
}

func newKnownRequest(s *web.Stack, r *http.Request, head record.Head, rec *record.Record) *knownRequest {
	return &knownRequest{
		stack: s, replayer: rec.Replayer, route: rec.Route, keyed: rec.Keyed, charge: rec.Charge,
		record: record.NewRepeated(rec.Route, head), bytes: int(2 * max(0, r.ContentLength)),
	}
}

// A replay is the state of serving a request by a knownRequest. It is reused, so that a hit allocates nothing.
type replay struct {
	rec        record.Record
	response   respond.Response
	rateLimits limits.Statuses
	end        record.End
	id         [64]byte // storage for rec.ID
}

// reset prepares p for a new request, and retains its buffer.
func (p *replay) reset(start time.Time, callerID string) {
	buffer := p.rec.Buffer[:0]
	*p = replay{}
	p.rec.Buffer = buffer
	p.rec.Start, p.rec.CallerID = start, callerID
}

// begin loads the response to a request. It returns false if net/http's handler must serve the request.
func (r *knownRequest) begin(p *replay, client *conn.Conn, request *heads.Request, start time.Time) bool {
	p.reset(start, request.CallerID())
	if !p.admit(r.stack, client, request, r.keyed) || !r.loadResponse(p) {
		return false
	}
	p.setID(request.Value(heads.RequestID))
	return true
}

// admit sets the client, and reports whether the lane may serve it. The lane serves no traced request.
func (p *replay) admit(s *web.Stack, client *conn.Conn, request *heads.Request, keyed bool) bool {
	if p.rec.Sampling = s.Sample(client.Address(), request.Value(heads.Traceparent)); p.rec.Sampling == record.Sampled {
		return false
	}
	p.rec.Session.Arrive(client.Seen())
	admission := s.Admission
	p.rec.Client.Address = admission.Address(client.Address(), request.Values(heads.ForwardedFor))
	if presented := request.Value(heads.APIKey); (keyed || presented != "") && !p.setKey(admission, presented, keyed) {
		return false
	}
	if sent := web.Given(request.Values(heads.Session)); len(sent) > 0 {
		var ok bool
		if p.rec.Session.Token, ok = session.ParseToken(sent[0]); !ok || len(sent) > 1 {
			return false // the handler responds with 400
		}
	}
	return request.Size <= web.MaxHeader
}

// loadResponse loads the response for a client, and counts the request against its rate limits.
func (r *knownRequest) loadResponse(p *replay) bool {
	p.rec.Route = r.route
	a, c, now := r.stack.Admission, &p.rec.Client, p.rec.Start
	return a.WouldAdmit(c, r.charge, now) && r.replayer.Replay(&p.rec, &p.response) && a.AdmitRepeated(&p.rateLimits, c, r.charge, now)
}

// setKey sets the client's API key if it is required or has a rate. It returns false if a required key is not valid. It is
// not inlined, so that the stack frame of admit stays small.
//
//go:noinline
func (p *replay) setKey(admission *limits.Admission, key string, required bool) (ok bool) {
	if !required {
		p.rec.Client.Key, _ = admission.KeyWithRate(key)
		return true
	}
	p.rec.Client.Key, ok = admission.KeyOf(key)
	return ok
}

// setID sets the request id, stored in p: the client's if it is safe, or a new one.
func (p *replay) setID(sent string) {
	var id []byte
	if record.SafeID(sent) {
		id = append(p.id[:0], sent...)
	} else {
		id = record.AppendID(p.id[:0])
	}
	p.rec.ID[0] = unsafe.String(&id[0], len(id)) //nolint:gosec // not written before the request ends
}

func (r *knownRequest) render(p *replay, request *heads.Request) respond.Rendering {
	head := request.Method == http.MethodHead
	if p.response.Body != nil {
		p.rec.Buffer = p.response.Body // which may have grown
	}
	out := r.stack.Responder.Render(&p.response, request.Values(heads.AcceptEncoding), request.Values(heads.IfNoneMatch), head, p.rateLimits[:])
	if p.end.Status = out.Status; !head {
		p.end.Size = len(out.Body)
	}
	return out
}

// Respond implements [Handler]. It renders the response as net/http would write it.
func (r *knownRequest) Respond(hit *Hit) (ok bool) {
	p, ok := hit.State.(*replay)
	if !ok {
		p = &replay{}
		hit.State = p
	}
	request := hit.Request
	ok = r.begin(p, hit.Conn.client, request, hit.Start)
	hit.Conn.sampling = p.rec.Sampling
	if !ok {
		return false
	}
	out := r.render(p, request)
	b := appendStatusLine(hit.Head, request.Minor, out.Status)
	b = r.stack.AppendOrigin(b, request.Values(heads.Origin))
	if b, ok = out.AppendTo(b); !ok {
		return false
	}
	if request.Close && request.Minor > 0 {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(append(append(b, respond.RequestIDHeader...), ": "...), p.rec.ID[0]...)
	b = append(append(b, "\r\nDate: "...), date(hit.Start).header[0]...)
	b = append(b, "\r\n\r\n"...)
	hit.Head = b
	if request.Method != http.MethodHead {
		hit.Body = out.Body
	}
	return true
}

func (r *knownRequest) Done(hit *Hit) {
	r.finish(hit.State.(*replay), hit.Request) //nolint:forcetypeassert // set by Respond
}

func (r *knownRequest) finish(p *replay, request *heads.Request) {
	p.end.Method, p.end.Agent = request.Method, record.Agent(request.Value(heads.UserAgent))
	p.end.Took = time.Since(p.rec.Start)
	p.rec.Session.Leave()
	r.stack.Recorder.End(&p.rec, &p.end, r.record)
}

func appendStatusLine(b []byte, minor, status int) []byte {
	b = append(append(b, "HTTP/1."...), byte('0'+minor), ' ')
	b = strconv.AppendInt(b, int64(status), 10)
	return append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
}

// A dateText is a value of the Date header. It is cached for a second.
type dateText struct {
	second int64
	header [1]string // an array, so that http.Header can share it
}

var lastDate atomic.Pointer[dateText]

func date(t time.Time) *dateText {
	d := lastDate.Load()
	if second := t.Unix(); d == nil || d.second != second {
		d = &dateText{second, [1]string{t.UTC().Format(http.TimeFormat)}}
		lastDate.Store(d)
	}
	return d
}
