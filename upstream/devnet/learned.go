package devnet

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// A lesson has the handlers that tests add to a server, by path or by method of JSON-RPC.
type lesson struct{ handlers sync.Map }

// Learn makes the nodes' REST server answer a path, or with a name that does not begin with a slash the RPC answer a
// method, as another release of the node might. A method's handler gets the request as the client sent it.
func (n *Node) Learn(name string, h http.HandlerFunc) { n.learned.handlers.Store(name, h) }

// before serves what was learned, and by next everything else.
func (l *lesson) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name == "/" && r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body) // next finds it short
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
		h.(http.HandlerFunc)(w, r) //nolint:forcetypeassert // Learn stores no others
	})
}
