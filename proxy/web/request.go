package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
)

// A Request is what this server has understood of a request, with its response and its record. [Stack.Handler] makes one of each
// HTTP request, [Stack.Call] and [Stack.Exchange] are given one for each call of another protocol, and the APIs get it as an argument.
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
func NewRequest(r *http.Request) *Request { return &Request{Request: r, ResponseHeader: http.Header{}} }

// NewExchange returns a Request whose response is written to w.
func NewExchange(w http.ResponseWriter, r *http.Request) *Request {
	return &Request{Request: r, Writer: w, ResponseHeader: w.Header()}
}

// Nested returns the request for a path that r names, and that is parsed like a GET with the headers of r.
func (r *Request) Nested(u *url.URL) *Request {
	inner := *r.Request
	inner.Method, inner.URL, inner.RequestURI = http.MethodGet, u, u.RequestURI()
	n := &Request{Request: &inner, Base: r.Base, Options: r.Options, ResponseHeader: http.Header{}, WalkWait: r.WalkWait}
	n.Record.Client = r.Record.Client
	return n
}

// Send sends a body that is not from the cache, with no-store unless Cache-Control is set already.
func (r *Request) Send(status int, typ string, body []byte) {
	respond.Send(r.Writer, r.Request, status, typ, body)
}

// CutBase removes a base path, which has no trailing slash, from the path, and reports whether the path is below it. Doubled
// slashes in the prefix count as one. RequestURI is unchanged, so that it distinguishes requests below different bases.
func (r *Request) CutBase(base string) bool {
	path, ok := cutBase(r.URL.Path, base)
	if !ok {
		return false
	}
	u := *r.URL
	u.Path = cmp.Or(path, "/")
	u.RawPath, _ = cutBase(u.RawPath, base) // ignored unless it encodes Path
	r.Base = base
	r.setURL(&u)
	return true
}

// cutBase returns the rest of a path below base, and whether it is below it.
func cutBase(path, base string) (rest string, ok bool) {
	for _, c := range []byte(base) {
		if path == "" || path[0] != c {
			return "", false
		}
		path = path[1:]
		if c == '/' {
			path = strings.TrimLeft(path, "/")
		}
	}
	return path, path == "" || path[0] == '/'
}

// SetPath replaces the decoded path below Base.
func (r *Request) SetPath(path string) {
	u := *r.URL
	u.Path, u.RawPath = path, ""
	r.setURL(&u)
}

// setURL replaces the URL without changing the request that r was made of.
func (r *Request) setURL(u *url.URL) {
	edited := *r.Request
	edited.URL = u
	r.Request = &edited
}

// A ParameterFilter decides whether a query parameter is removed. name is decoded. It returns the name under which
// Options has the parameter, or instead, a pair that replaces it. If both are "", the parameter stays.
type ParameterFilter func(name, rawValue string) (as, instead string)

// RemoveParameters moves the parameters that the filters name from the query to Options, so that nodes, cache keys and logs do
// not have them.
func (r *Request) RemoveParameters(filters ...ParameterFilter) {
	removed := url.Values{}
	for name, values := range r.Options {
		removed[name] = slices.Clip(values) // appending must not change the values of the outer request
	}
	query, found := EditQuery(r.URL.RawQuery, func(name, rawValue string) (instead string, found bool) {
		for _, filter := range filters {
			as, instead := filter(name, rawValue)
			if as != "" {
				removed[as] = append(removed[as], Unescape(rawValue))
			}
			if as != "" || instead != "" {
				return instead, true
			}
		}
		return "", false
	})
	if !found {
		return
	}
	u := *r.URL
	u.RawQuery = query
	r.setURL(&u)
	r.Options, r.RequestURI = removed, r.Base+u.RequestURI()
}
