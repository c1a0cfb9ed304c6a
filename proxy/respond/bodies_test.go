package respond_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A slowClient reads nothing of a body until read is closed.
type slowClient struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (c *slowClient) Write(p []byte) (int, error) {
	<-c.read
	return c.ResponseRecorder.Write(p)
}

// A response that is being written must not keep its body in other codings in memory.
func TestUnreadResponseRetainsOnlyItsBody(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	responder := respond.New(c, false)
	synctest.Test(t, func(t *testing.T) {
		w := &slowClient{httptest.NewRecorder(), make(chan struct{})}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip, identity;q=0")
		a, plain := func() (respond.Response, weak.Pointer[cache.Content]) {
			content := cache.NewContent(http.StatusOK, respond.JSON, "", bytes.Repeat([]byte("x"), 1<<20), 0)
			return respond.Response{Result: cache.Result{Entry: &cache.Entry{Content: content, ReadAt: time.Now()}}}, weak.Make(content)
		}()
		go func() {
			responder.Respond(w, r, &a)
			runtime.KeepAlive(&a) // as for handlers that record their response
		}()
		synctest.Wait() // Respond waits for the client
		runtime.GC()
		if plain.Value() != nil {
			t.Error("plain body is still referenced while the encoded one is written")
		}
		close(w.read)
		synctest.Wait()
		if w.Body.Len() == 0 {
			t.Error("length of the body = 0, want the encoded body")
		}
	})
}
