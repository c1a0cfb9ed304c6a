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

// An unread is a client that takes nothing of a body until it is told to.
type unread struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (u *unread) Write(p []byte) (int, error) {
	<-u.read
	return u.ResponseRecorder.Write(p)
}

// A body that is being written keeps no other form of its answer alive.
func TestUnreadResponseRetainsOnlyItsBody(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	responder := respond.New(c, false)
	synctest.Test(t, func(t *testing.T) {
		w := &unread{httptest.NewRecorder(), make(chan struct{})}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip, identity;q=0")
		a, kept := func() (respond.Response, weak.Pointer[cache.Content]) {
			content := cache.NewContent(http.StatusOK, respond.JSON, "", bytes.Repeat([]byte("x"), 1<<20), 0)
			return respond.Response{Result: cache.Result{Entry: &cache.Entry{Content: content, ReadAt: time.Now()}}}, weak.Make(content)
		}()
		go func() {
			responder.Respond(w, r, &a)
			runtime.KeepAlive(&a) // as handlers do that note what they answered
		}()
		synctest.Wait() // it waits for the client
		runtime.GC()
		if kept.Value() != nil {
			t.Error("plain body is still referenced while the encoded one is written")
		}
		close(w.read)
		synctest.Wait()
		if w.Body.Len() == 0 {
			t.Error("output is empty")
		}
	})
}
