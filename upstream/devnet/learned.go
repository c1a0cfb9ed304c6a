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
func (n *Node) Handle(name string, h http.HandlerFunc) { n.learned.handlers.Store(name, h) }

// before serves the added paths and methods, and everything else by next.
func (l *extraHandlers) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name == "/" && r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body) // next would see a truncated body
			r.Body = io.NopCloser(bytes.NewReader(body))
			name = "/" + gjson.GetBytes(body, "method").Str
		}
		h, ok := l.handlers.Load(name)
		if !ok {
			h, ok = l.handlers.Load(strings.TrimPrefix(name, "/"))
		}
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		h.(http.HandlerFunc)(w, r) //nolint:forcetypeassert // Handle stores no others
	})
}
