package web

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Values of Options.CORSOrigins for all origins and for none.
const (
	anyOrigin = "*"
	noOrigin  = "none"
)

const (
	originHeader = "Access-Control-Allow-Origin"
	exposeHeader = "Access-Control-Expose-Headers"
)

// OriginPattern begins an origin that stands for those of all hosts below a domain, with one label more.
const OriginPattern = "https://*."

// Methods and headers that pages of other origins may send, and headers that they may read.
const (
	allowedMethods = "GET, HEAD, POST, QUERY"
	allowedHeaders = "X-Api-Key, Content-Type, X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, X-Session, If-None-Match, X-Request-Id, traceparent, " + webHeaders + ", " + sentHeaders + ", " + heightHeaders
	sentHeaders    = "Authorization, Cache-Control, Last-Event-Id, Pragma, X-Requested-With, X-Server-Time" // event sources and wallets send them; only Last-Event-Id is read
	webHeaders     = "X-Grpc-Web, X-User-Agent, Grpc-Timeout"                                               // gRPC-Web clients send them
	heightHeaders  = "X-Cosmos-Block-Height, Grpc-Metadata-X-Cosmos-Block-Height"                           // of SDK nodes
	preflightAge   = "7200"                                                                                 // seconds; the maximum of Chromium
)

// exposedHeaders has no spare capacity, so that an append makes a copy.
var exposedHeaders = []string{"X-Block-Height, X-Evm-Block, X-Session, X-Session-Reset, ETag, Cache-Status, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Link, X-Unknown-Parameters, " + heightHeaders}

// cors tells browsers which pages may read responses. It never allows credentials, because the only credential is a header that
// a page must set, the API key. The session cookie is SameSite=Strict.
type cors struct {
	onAll   http.Header         // headers of every response
	origins map[string][]string // allowed origins, each with itself as the value of a header; nil allows none
	domains map[string]bool     // domains, each with its port, whose hosts with one more label have an allowed origin
}

func newCORS(origins []string) (c cors) {
	if slices.Contains(origins, noOrigin) {
		return c
	}
	c.origins, c.domains = map[string][]string{}, map[string]bool{}
	for _, origin := range origins {
		origin = strings.ToLower(origin) // as browsers send it
		if domain, ok := strings.CutPrefix(origin, OriginPattern); ok {
			c.domains[domain] = true
			continue
		}
		c.origins[origin] = []string{origin}
	}
	if c.differs() {
		c.onAll = http.Header{"Vary": {"Origin"}}
	} else { // also without an Origin: a cache in front may serve the response to a page
		c.onAll = http.Header{originHeader: c.origins[anyOrigin], exposeHeader: exposedHeaders}
	}
	return c
}

// differs reports whether responses depend on the origin.
func (c *cors) differs() bool { return c.origins != nil && c.origins[anyOrigin] == nil }

// setOrigin sets the headers that say which pages may read the response to a request.
func (c *cors) setOrigin(h http.Header, r *http.Request) {
	maps.Copy(h, c.onAll)
	if c.differs() {
		if allowed := c.allowedOrigin(r.Header["Origin"]); allowed != nil {
			h[originHeader], h[exposeHeader] = allowed, exposedHeaders
		}
	}
}

// AppendOrigin appends the headers for a request's origin in the form of HTTP/1, except Vary.
func (c *cors) AppendOrigin(b []byte, origin []string) []byte {
	allowed := c.allowedOrigin(origin)
	if allowed == nil {
		return b
	}
	b = append(append(append(b, originHeader+": "...), allowed[0]...), "\r\n"...)
	return append(append(append(b, exposeHeader+": "...), exposedHeaders[0]...), "\r\n"...)
}

// allowedOrigin returns the value of Access-Control-Allow-Origin for a request with these Origin headers, nil for none.
func (c *cors) allowedOrigin(sent []string) []string {
	if allowed := c.origins[anyOrigin]; allowed != nil || len(sent) != 1 {
		return allowed
	}
	if allowed := c.origins[sent[0]]; allowed != nil {
		return allowed
	}
	if len(c.domains) > 0 {
		host, isHTTPS := strings.CutPrefix(sent[0], "https://")
		label, domain, _ := strings.Cut(host, ".")
		if isHTTPS && isLabel(label) && c.domains[domain] {
			return sent[:1:1]
		}
	}
	return nil
}

// isLabel reports whether a text is a label of a host name, as browsers send it.
func isLabel(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Connects reports whether a page of a request's origin may open a WebSocket. Browsers leave this check to the server.
// Pages that may read responses may, and those of our own host.
func (c *cors) Connects(r *http.Request) bool {
	sent := r.Header["Origin"]
	if len(sent) == 0 || c.origins[anyOrigin] != nil {
		return true // no browser, or any page
	}
	_, host, _ := strings.Cut(sent[0], "://")
	return len(sent) == 1 && (c.allowedOrigin(sent) != nil || strings.EqualFold(host, r.Host))
}
