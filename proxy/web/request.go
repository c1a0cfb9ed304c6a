package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// A Request is what this server has understood of a request, with its response and its record. There is one for each HTTP request
// ([Stack.Handler]) and for each call of another protocol ([Stack.Call], [Stack.Message]). The APIs get it as an argument.
type Request struct {
	*http.Request // the path is below Base, and the query is without Options

	Base    string     // base path that the request was sent below; "" for none
	Options url.Values // decoded parameters for this server, which RemoveParameters has removed from the query

	Writer         http.ResponseWriter     // nil if the response is not sent over HTTP
	ResponseHeader http.Header             // headers of the response; of a call that has none, a header that is not sent
	Amend          func(*respond.Response) // changes a response from the cache before it is sent; nil changes nothing

	Record record.Record

	Item     *cache.Entry // newest entry of the item that the request has waited for; nil for none
	WalkWait *time.Time   // when the waits for the blocks of walks end, which the paths of a request share; nil if it is alone

	client  *conn.Conn // nil if our listener did not accept it
	lane    Lane       // nil if the connection has none
	route   Route
	sent    response // Gin's view of Writer; nil for a call
	refused bool     // there is no memory for its stream
	writer  ginWriter
}

// A response knows what has been sent of it. Gin's writer implements it.
type response interface {
	http.ResponseWriter
	Status() int
	Size() int // negative before the first byte
	Written() bool
	WriteHeaderNow()
}

// NewRequest returns a Request that nothing is understood of yet.
func NewRequest(r *http.Request) *Request {
	return &Request{Request: r, ResponseHeader: http.Header{}, client: conn.Of(r)}
}

// NewHTTPRequest returns a Request whose response is written to w.
func NewHTTPRequest(w http.ResponseWriter, r *http.Request) *Request {
	return &Request{Request: r, Writer: w, ResponseHeader: w.Header(), client: conn.Of(r)}
}

// Nested returns the request for a path that r names, and that is parsed like a GET with the headers of r.
func (r *Request) Nested(u *url.URL) *Request {
	inner := *r.Request
	inner.Method, inner.URL, inner.RequestURI = http.MethodGet, u, u.RequestURI()
	n := &Request{Request: &inner, Base: r.Base, Options: r.Options, ResponseHeader: http.Header{}, WalkWait: r.WalkWait, client: r.client}
	n.Record.Client = r.Record.Client
	return n
}

// Send sends a body that is not from the cache, with no-store unless Cache-Control is set already.
func (r *Request) Send(status int, typ string, body []byte) {
	respond.Send(r.Writer, r.Request, status, typ, body)
}

// setURL replaces the URL without changing the request that r was made of.
func (r *Request) setURL(u *url.URL) {
	edited := *r.Request
	edited.URL = u
	r.Request = &edited
}
