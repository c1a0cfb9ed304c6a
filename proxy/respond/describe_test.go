package respond_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
)

func TestBodyMadeOfAnEntryIsSentWithItsValidator(t *testing.T) {
	responder := respond.New(nil, false)
	const tag = `"v1"`
	for name, tt := range map[string]struct {
		method, sent string // If-None-Match
		status, want int
		tag, body    string
	}{
		"the first time":               {"GET", "", 200, 200, tag, "{}"},
		"to a client that has it":      {"GET", tag, 200, 304, tag, ""},
		"to a client that has older":   {"GET", `"v0"`, 200, 200, tag, "{}"},
		"to HEAD":                      {"HEAD", "", 200, 200, tag, ""},
		"with a status other than 200": {"GET", tag, 500, 500, "", "{}"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), tt.method, "/", nil)
		if tt.sent != "" {
			r.Header.Set("If-None-Match", tt.sent)
		}
		content := cache.NewContent(http.StatusOK, respond.JSON, "", []byte("[]"), 0)
		a := &respond.Response{Result: cache.Result{Entry: &cache.Entry{Content: content, Height: 7, ReadAt: time.Now()}}}
		responder.SendTold(w, r, a, tt.status, tag, []byte("{}"))
		if w.Code != tt.want || w.Header().Get("Etag") != tt.tag || w.Body.String() != tt.body || w.Header().Get(respond.HeightHeader) != "7" {
			t.Errorf("%s: status %d, header %v, body %q; want %d, ETag %q, %q", name, w.Code, w.Header(), w.Body, tt.want, tt.tag, tt.body)
		}
	}
}
