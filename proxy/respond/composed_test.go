package respond_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestComposedBodyIsSentWithItsValidator(t *testing.T) {
	responder := respond.New(nil, false)
	const tag = `"v1"`
	for name, tt := range map[string]struct {
		method, sent string // If-None-Match
		status, want int
		tag, body    string
	}{
		"without a tag":                {"GET", "", 200, 200, tag, "{}"},
		"with its tag":                 {"GET", tag, 200, 304, tag, ""},
		"with an older tag":            {"GET", `"v0"`, 200, 200, tag, "{}"},
		"by HEAD":                      {"HEAD", "", 200, 200, tag, ""},
		"with a status other than 200": {"GET", tag, 500, 500, "", "{}"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), tt.method, "/", nil)
		if tt.sent != "" {
			r.Header.Set("If-None-Match", tt.sent)
		}
		content := cache.NewContent(http.StatusOK, respond.JSON, "", []byte("[]"), 0)
		a := &respond.Response{
			Result: cache.Result{Entry: &cache.Entry{Content: content, Height: 7, ReadAt: time.Now()}},
			Body:   []byte("{}"), Status: tt.status, Tag: tag,
		}
		responder.Respond(w, r, a)
		if w.Code != tt.want || w.Header().Get("Etag") != tt.tag || w.Body.String() != tt.body || w.Header().Get(respond.HeightHeader) != "7" {
			t.Errorf("%s: status = %d, header %v, body %q; want %d, ETag %q, %q", name, w.Code, w.Header(), w.Body, tt.want, tt.tag, tt.body)
		}
	}
}

// Go's client of HTTP/2 expects a body after a Content-Length, whatever the status is.
func TestNotModifiedComposedBodyIsCompleteOverHTTP2(t *testing.T) {
	responder := respond.New(nil, false)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := cache.NewContent(http.StatusOK, respond.JSON, "", []byte("[]"), 0)
		responder.Respond(w, r, &respond.Response{Result: cache.Result{Entry: &cache.Entry{Content: content}}, Body: []byte("{}"), Tag: `"v1"`})
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil))(t)
	r.Header.Set("If-None-Match", `"v1"`)
	got := expect.Value(s.Client().Do(r))(t)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if got.StatusCode != http.StatusNotModified || got.ProtoMajor != 2 || len(body) != 0 || err != nil {
		t.Errorf("response of %s = %d %q, %v; want an empty 304 of HTTP/2", got.Proto, got.StatusCode, body, err)
	}
}

func TestBodyIsSentExceptForHEAD(t *testing.T) {
	for method, want := range map[string]string{http.MethodGet: "{}", http.MethodHead: ""} {
		for _, control := range []string{"", "public"} {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "/", nil)
			stored := "no-store"
			if control != "" {
				w.Header().Set("Cache-Control", control)
				stored = control
			}
			respond.Send(w, r, 418, respond.JSON, []byte("{}"))
			if w.Code != 418 || w.Body.String() != want || w.Header().Get("Content-Length") != "2" || w.Header().Get("Cache-Control") != stored {
				t.Errorf("response to %s = %d %q %v, want %q with Cache-Control %s", method, w.Code, w.Body, w.Header(), want, stored)
			}
		}
	}
}
