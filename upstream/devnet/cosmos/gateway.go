package cosmos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// notImplemented is the error for an unknown route.
var notImplemented = status.Error(codes.Unimplemented, "Not Implemented")

// Unavailable returns the gateway's body for an application that is unreachable or too slow.
func Unavailable(status int) []byte {
	return []byte(cmp.Or(documents()[strconv.Itoa(status)], documents()["503"]))
}

// statuses are the HTTP statuses of the API's gRPC codes.
var statuses = map[codes.Code]int{
	codes.Unknown: http.StatusInternalServerError, codes.Internal: http.StatusInternalServerError, codes.InvalidArgument: http.StatusBadRequest,
	codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.NotFound: http.StatusNotFound, codes.Unimplemented: http.StatusNotImplemented,
}

// failureBody returns an error as JSON.
func failureBody(f *status.Status) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(f.Message()) // strings always encode
	return fmt.Appendf(nil, `{"code":%d,"message":%s,"details":[]}`, f.Code(), bytes.TrimSpace(text.Bytes()))
}

// Handler returns the REST API of a node. A node without gRPC (grpc.enable = false) has other error texts, and errors
// without a height. Handler calls count for every request that reads the state, with the URI and the height.
func (c *Chain) Handler(n state.View, noGRPC bool, count func(uri string, height int64)) http.Handler {
	return &gateway{chain: c, node: n, noGRPC: noGRPC, count: count}
}

// A gateway is the REST server of a node.
type gateway struct {
	chain  *Chain
	node   state.View
	noGRPC bool
	count  func(uri string, height int64)
}

// The headers with heights. Errors carry only the second.
const (
	heightHeader   = "X-Cosmos-Block-Height"
	metadataHeader = "Grpc-Metadata-X-Cosmos-Block-Height"
)

// ServeHTTP routes by the decoded path, as grpc-gateway does.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Server-Time", strconv.FormatInt(time.Now().Unix(), 10))
	body, err := g.answer(w, r)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		f := status.Convert(err)
		w.WriteHeader(statuses[f.Code()])
		body = string(failureBody(f))
	}
	_, _ = io.WriteString(w, body) // the client may be gone
}

// answer finds the route, reads parameters and height, and then the state.
func (g *gateway) answer(w http.ResponseWriter, r *http.Request) (string, error) {
	components := strings.Split(dropVerb(r.URL.Path)[1:], "/")
	route, vars := find(r.Method, components)
	if route == nil {
		return "", notImplemented
	}
	q := &query{chain: g.chain, node: g.node, now: g.node.Now(), vars: vars}
	if err := q.read(r, route); err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	if route.local {
		q.at(q.now.Height)
		return route.serve(q)
	}
	return g.query(w, r, route, q)
}

// query answers a request that the application handles.
func (g *gateway) query(w http.ResponseWriter, r *http.Request, route *route, q *query) (body string, err error) {
	height, err := g.heightOf(r.Header, q.now)
	if err != nil {
		return "", err
	}
	g.count(r.URL.RequestURI(), height)
	q.at(height)
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

// plainText returns the text of an error on a node without gRPC.
func plainText(err error) error {
	f := status.Convert(err)
	text := f.Err().Error()
	if f.Code() == codes.NotFound {
		text += ": key not found"
	}
	return status.Error(f.Code(), text)
}

// dropVerb removes an empty verb: a colon at the end of the path.
func dropVerb(p string) string {
	if strings.HasSuffix(p, ":") && !strings.HasSuffix(p, "/:") {
		return p[:len(p)-1]
	}
	return p
}

// heightOf returns the height to read. As on a node, a header that is sent twice, or under both names, is ignored.
func (g *gateway) heightOf(h http.Header, now state.Clock) (height int64, err error) {
	if given := append(append([]string{}, h.Values(heightHeader)...), h.Values(metadataHeader)...); len(given) == 1 {
		height, err = strconv.ParseInt(given[0], 10, 64)
	}
	if g.noGRPC { // it treats an invalid height as the latest
		height, err = max(0, height), nil
	}
	code, name, text := now.Unreadable(height)
	switch {
	case err != nil:
		return 0, g.refuse(18, "invalid request", fmt.Sprintf("Baseapp.RegisterGRPCServer: invalid height header \"x-cosmos-block-height\": %v", err))
	case height == 0 && now.Restarted:
		return 0, g.refuse(26, "invalid height", fmt.Sprintf("context did not contain latest block height in either check state or finalize block state (%d)", now.Height))
	case height == 0:
		return now.Height, nil
	case code != 0:
		return 0, g.refuse(code, name, text)
	}
	return height, nil
}

// refuse returns an error that the SDK sends before it calls a handler.
func (g *gateway) refuse(code int, name, text string) error {
	if g.noGRPC {
		return fmt.Errorf("%s: %s", text, name)
	}
	return fmt.Errorf("codespace sdk code %d: %s: %s", code, name, text)
}
