package devnet

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// extraHandlers are the handlers that tests add to a server, by path or by JSON-RPC method.
type extraHandlers struct{ handlers sync.Map }

// Handle adds a path to the node's REST server, or a method to its RPC if name does not begin with a slash, as another
// release of the node might have. A method's handler gets the request as the client sent it.
func (n *Node) Handle(name string, h http.HandlerFunc) {
	n.learned.handlers.Store("/"+strings.TrimPrefix(name, "/"), h)
}

// before serves the added paths and methods, and everything else by next.
func (l *extraHandlers) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve := next
		if h, ok := l.handlers.Load(called(r)); ok {
			serve = h.(http.HandlerFunc) //nolint:forcetypeassert // Handle stores no others
		}
		serve.ServeHTTP(w, r)
	})
}

// called returns the path of a request, or the method that it calls by JSON-RPC, after a slash.
func called(r *http.Request) string {
	if r.URL.Path != "/" || r.Method != http.MethodPost {
		return r.URL.Path
	}
	body, _ := io.ReadAll(r.Body) // the handler sees a truncated body
	r.Body = io.NopCloser(bytes.NewReader(body))
	return "/" + gjson.GetBytes(body, "method").Str
}
