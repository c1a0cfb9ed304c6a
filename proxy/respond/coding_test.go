package respond_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
)

// TestCodingIsTheOneThatTheClientPrefers sends bodies of several sizes, each one twice.
func TestCodingIsTheOneThatTheClientPrefers(t *testing.T) {
	c, err := cache.New(cache.Options{EncodeAtOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const all = "gzip, br, zstd"
	for _, tt := range []struct {
		size          int
		accept        string
		first, second string // Content-Encoding
	}{
		{1<<10 - 1, all, "", ""},
		{1<<10 - 1, "gzip, identity;q=0", "gzip", "gzip"},
		{1 << 10, all, "br", "br"},
		{8 << 10, all, "zstd", "zstd"},
		{8 << 10, "gzip, br", "gzip", "br"},
		{8 << 10, "br", "", "br"},
		{8 << 10, "br, identity;q=0", "br", "br"},
		{1 << 20, all, "zstd", "zstd"},
		{1 << 20, "gzip, br", "gzip", "gzip"},
		{1 << 10, "", "", ""},
		{1 << 10, "gzip;q=0.5, zstd;q=0.501", "zstd", "zstd"},
		{1 << 10, "gzip;q=0.5, zstd;q=0.5", "zstd", "zstd"},
		{1 << 10, "gzip;q=0, *", "br", "br"},
		{1 << 10, "*;q=0, gzip;q=0.001", "gzip", "gzip"},
		{1 << 10, "*;q=0", "", ""},
		{1 << 10, "gzip;q=0.5, identity", "", ""},
		{1 << 10, "X-GZIP", "gzip", "gzip"},
		{1 << 10, "br;q=2, zstd;q=x, compress, gzip", "gzip", "gzip"},
		{1 << 10, "zstd;q=0.0001", "", ""},
		{1 << 10, "gzip;q=1.000", "gzip", "gzip"},
		{1 << 10, "gzip;q=1.001", "", ""},
		{1 << 10, "gzip;p=1", "", ""},
		{1 << 10, "gzip;q=09", "", ""},
		{1 << 10, "gzip;q=0.9, gzip;q", "gzip", "gzip"},
	} {
		content := cache.NewContent(http.StatusOK, respond.JSON, "", bytes.Repeat([]byte("x"), tt.size), 0)
		for i, want := range []string{tt.first, tt.second} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", tt.accept)
			w := httptest.NewRecorder()
			entry := &cache.Entry{Content: content, Height: 7, ReadAt: time.Now()}
			tag := content.ETag
			respond.New(c, false).Respond(w, r, &respond.Response{Result: cache.Result{Entry: entry}})
			if want != "" {
				tag = tag[:len(tag)-1] + "-" + want + `"`
			}
			if got := w.Header().Get("Content-Encoding"); got != want || w.Header().Get("Etag") != tag || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
				t.Errorf("%d bytes with Accept-Encoding %q, time %d: header %v, want coding %q and ETag %s", tt.size, tt.accept, i+1, w.Header(), want, tag)
			}
		}
	}
}

func TestClientThatHasTheContentGets304(t *testing.T) {
	c, err := cache.New(cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	content := cache.NewContent(http.StatusOK, respond.JSON, "", bytes.Repeat([]byte("x"), 2<<10), 0)
	inCoding := func(coding string) string { return content.ETag[:len(content.ETag)-1] + "-" + coding + `"` }
	for _, tt := range []struct {
		tags []string
		want string // "" for a response with a body
	}{
		{nil, ""},
		{[]string{`"x"`}, ""},
		{[]string{inCoding("x")}, ""},
		{[]string{"*"}, inCoding("gzip")},
		{[]string{content.ETag}, content.ETag},
		{[]string{"W/" + content.ETag}, content.ETag},
		{[]string{`"x", ` + inCoding("br")}, inCoding("br")},
		{[]string{inCoding("br"), inCoding("zstd") + "," + inCoding("gzip")}, inCoding("gzip")},
		{[]string{inCoding("br"), inCoding("zstd")}, inCoding("br")},
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header["Accept-Encoding"], r.Header["If-None-Match"] = []string{"gzip"}, tt.tags
		entry := &cache.Entry{Content: content, Height: 7, ReadAt: time.Now()}
		respond.New(c, true).Respond(w, r, &respond.Response{Result: cache.Result{Entry: entry}, Vary: "X-A", Session: session.Token{Height: 7}})
		status, tag := http.StatusNotModified, tt.want
		if tt.want == "" {
			status, tag = http.StatusOK, inCoding("gzip")
		}
		if w.Code != status || w.Header().Get("Etag") != tag {
			t.Errorf("If-None-Match %v: status %d with ETag %s, want %d with %s", tt.tags, w.Code, w.Header().Get("Etag"), status, tag)
		}
		if got, want := w.Header().Get("Vary"), "X-A, Accept-Encoding, X-Session, Origin"; got != want || w.Header().Get("X-Session") != "7" {
			t.Errorf("Vary, X-Session = %s, %s, want %s, 7", got, w.Header().Get("X-Session"), want)
		}
	}
}
