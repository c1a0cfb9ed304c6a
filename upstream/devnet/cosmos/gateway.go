package cosmos

import (
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// A gateway is the REST server of a node.
type gateway struct {
	chain  *Chain
	node   nodeView
	noGRPC bool
	count  func(uri string, height int64)
}

// The headers that tell heights. Errors carry the second alone.
const (
	heightHeader   = "X-Cosmos-Block-Height"
	metadataHeader = "Grpc-Metadata-X-Cosmos-Block-Height"
)

// ServeHTTP routes by the decoded path, as grpc-gateway does.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Server-Time", strconv.FormatInt(time.Now().Unix(), 10))
	if Redirected(w, r) {
		return
	}
	body, err := g.answer(w, r)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		f := failed(err)
		w.WriteHeader(codes[f.code].status)
		body = string(f.body())
	}
	_, _ = io.WriteString(w, body) // the client may be gone
}

// Redirected sends the client to the clean path, without a body, unless it is clean: one
// without // and .., but with its trailing slash.
func Redirected(w http.ResponseWriter, r *http.Request) bool {
	clean := path.Clean("/" + r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") && clean != "/" {
		clean += "/"
	}
	if clean == r.URL.Path {
		return false
	}
	target := *r.URL
	target.Path, target.RawPath = clean, ""
	w.Header().Set("Location", target.String())
	w.WriteHeader(http.StatusMovedPermanently)
	return true
}

// answer finds the route, reads the parameters, the height, and then the state.
func (g *gateway) answer(w http.ResponseWriter, r *http.Request) (string, error) {
	components := strings.Split(dropVerb(r.URL.Path)[1:], "/")
	route, vars := find(methodOf(r), components)
	if route == nil {
		return "", notImplemented
	}
	q := &query{chain: g.chain, node: g.node, now: g.node.Now(), vars: vars}
	if err := q.read(r, route); err != nil {
		return "", &failure{invalidArgument, err.Error()}
	}
	if r.Header.Get("Grpc-Timeout") != "" {
		return "", &failure{deadlineExceeded, "context deadline exceeded"}
	}
	if route.local {
		q.state = g.chain.at(q.now.Height, g.node)
		return route.serve(q)
	}
	return g.query(w, r, route, q)
}

// query answers what goes through the application.
func (g *gateway) query(w http.ResponseWriter, r *http.Request, route *route, q *query) (body string, err error) {
	height, err := g.heightOf(r.Header, q.now)
	if err != nil {
		return "", err
	}
	g.count(r.URL.RequestURI(), height)
	q.state = g.chain.at(height, g.node)
	if err = q.addresses(); err == nil {
		body, err = route.serve(q)
	}
	if err != nil && g.noGRPC {
		return "", plainText(err)
	}
	text := strconv.FormatInt(height, 10)
	if !g.noGRPC {
		w.Header().Set("Grpc-Metadata-Content-Type", "application/grpc+cosmos-sdk-grpc-codec")
	}
	w.Header().Set(metadataHeader, text)
	if err == nil {
		w.Header().Set(heightHeader, text)
	}
	return body, err
}

// plainText is how an error reads when it comes without gRPC.
func plainText(err error) error {
	f := failed(err)
	text := "rpc error: code = " + codes[f.code].name + " desc = " + f.text
	if f.code == notFound {
		text += ": key not found"
	}
	return &failure{f.code, text}
}

// methodOf is the method that is routed: a form POST may stand for another.
func methodOf(r *http.Request) string {
	if r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		return http.MethodGet
	}
	return r.Method
}

// dropVerb cuts an empty verb: a colon at the end of the path.
func dropVerb(p string) string {
	if strings.HasSuffix(p, ":") && !strings.HasSuffix(p, "/:") {
		return p[:len(p)-1]
	}
	return p
}
