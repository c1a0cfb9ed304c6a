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
	"github.com/tipcache/tipcache/upstream/expect"
)

// The test sends each body twice, because some codings are ready only for the second response.
func TestCodingIsPreferredByClient(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{EncodeAtOnce: true}))(t)
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
		{1 << 10, "gzip;q=0.999, zstd;q=0.998", "gzip", "gzip"},
		{1 << 10, "gzip;q=0.1234", "", ""},
		{1 << 10, "gzip;q=0.x", "", ""},
		{1 << 10, "gzip;q=0, *", "br", "br"},
		{1 << 10, "*;q=0, gzip;q=0.001", "gzip", "gzip"},
		{1 << 10, "*;q=0", "", ""},
		{1 << 10, "gzip;q=0.5, identity", "", ""},
		{1 << 10, "gzip;q=0.001", "gzip", "gzip"},
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
				t.Errorf("%d bytes with Accept-Encoding %q, response %d: header = %v, want coding %q and ETag %s", tt.size, tt.accept, i+1, w.Header(), want, tag)
			}
		}
	}
}

func TestClientWithSameContentGets304(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
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
			t.Errorf("If-None-Match %v: status = %d with ETag %s, want %d with %s", tt.tags, w.Code, w.Header().Get("Etag"), status, tag)
		}
		if got, want := w.Header().Get("Vary"), "X-A, Accept-Encoding, X-Session, Origin"; got != want || w.Header().Get("X-Session") != "7" {
			t.Errorf("Vary, X-Session = %s, %s, want %s, 7", got, w.Header().Get("X-Session"), want)
		}
	}
}

// Each entry was read 3.5 s ago.
func TestHeadersDescribeAgeAndFreshness(t *testing.T) {
	now := time.Now()
	policy := cache.Policy{Fresh: 10 * time.Second}
	immutable := cache.Policy{Immutable: true, ImmutableIfOK: true}
	for name, tt := range map[string]struct {
		a                    respond.Response
		status               int
		expires              time.Duration // 0 for never
		age, control, detail string        // Age, Cache-Control, and Cache-Status after "tipcache"
	}{
		"a hit":                          {respond.Response{Result: cache.Result{Outcome: cache.Hit, Store: "memory"}, Policy: policy}, 200, 0, "3", "public, max-age=9", `; hit; ttl=6; detail="memory"`},
		"a miss":                         {respond.Response{Result: cache.Result{Outcome: cache.Miss, Forward: "uri-miss"}, Policy: policy}, 200, 0, "", "public, max-age=6", "; fwd=uri-miss; stored; ttl=6"},
		"a collapsed miss":               {respond.Response{Result: cache.Result{Outcome: cache.Miss, Forward: "uri-miss", Collapsed: true}, Policy: policy}, 200, 0, "3", "public, max-age=9", "; fwd=uri-miss; stored; collapsed; ttl=6"},
		"a miss that is not stored":      {respond.Response{Result: cache.Result{Outcome: cache.Miss, Forward: "uri-miss"}, Policy: policy}, 200, -1, "", "public, max-age=0", "; fwd=uri-miss; ttl=-1"},
		"a response with an end":         {respond.Response{Until: now.Add(4 * time.Second), Policy: policy, Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=7", "; hit; ttl=4"},
		"an entry that expires":          {respond.Response{Policy: policy, Result: cache.Result{Outcome: cache.Hit}}, 200, 2 * time.Second, "3", "public, max-age=5", "; hit; ttl=2"},
		"fresh for less than 1 s":        {respond.Response{Until: now.Add(time.Second - 1), Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=0", "; hit; ttl=0"},
		"fresh for 1 s":                  {respond.Response{Until: now.Add(time.Second), Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=4", "; hit; ttl=1"},
		"stale":                          {respond.Response{Until: now.Add(-1), Result: cache.Result{Outcome: cache.StaleHit, Forward: "stale"}}, 200, 0, "3", "public, max-age=0", `; fwd=stale; ttl=-1; detail="stale-while-revalidate"`},
		"stale because of an error":      {respond.Response{Policy: policy, Result: cache.Result{Outcome: cache.StaleError, Store: "redis"}}, 200, 0, "3", "public, max-age=0", `; hit; ttl=6; detail="redis stale-if-error"`},
		"catching up":                    {respond.Response{Policy: policy, CatchingUp: true, Seconds: true, Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=0", `; hit; ttl=6; detail="seconds catching-up"`},
		"unconfirmed and behind":         {respond.Response{Policy: policy, Unconfirmed: true, Behind: 1500 * time.Millisecond, Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=0", `; hit; ttl=6; detail="unconfirmed behind=1s"`},
		"private":                        {respond.Response{Policy: policy, Private: true, SharedUntil: now.Add(time.Second), Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "private, max-age=9", "; hit; ttl=6"},
		"after a rollback":               {respond.Response{Policy: policy, Reset: true, Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "private, max-age=9", "; hit; ttl=6"},
		"shared for a shorter time":      {respond.Response{Policy: policy, SharedUntil: now.Add(2 * time.Second), Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=9, s-maxage=2", "; hit; ttl=6"},
		"shared for a longer time":       {respond.Response{Policy: policy, SharedUntil: now.Add(time.Minute), Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=9, s-maxage=6", "; hit; ttl=6"},
		"shared no longer":               {respond.Response{Policy: policy, SharedUntil: now.Add(-time.Minute), Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=9, s-maxage=0", "; hit; ttl=6"},
		"immutable":                      {respond.Response{Policy: immutable, Immutable: true, Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=86403, immutable", "; hit"},
		"immutable, but not by this URL": {respond.Response{Policy: immutable, Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "public, max-age=86403", "; hit"},
		"immutable with status 404":      {respond.Response{Policy: policy, Immutable: true, Result: cache.Result{Outcome: cache.Hit}}, 404, 0, "3", "public, max-age=9", "; hit; ttl=6"},
		"a poll":                         {respond.Response{Policy: policy, Next: "/x", Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "", "public, max-age=1", "; hit; ttl=6"},
		"another Cache-Control":          {respond.Response{Policy: policy, Control: "no-cache", Result: cache.Result{Outcome: cache.Hit}}, 200, 0, "3", "no-cache", "; hit; ttl=6"},
	} {
		entry := &cache.Entry{Content: cache.NewContent(tt.status, respond.JSON, "", []byte("{}"), 0), Height: 7, ReadAt: now.Add(-3500 * time.Millisecond)}
		if tt.expires != 0 {
			entry.Expires = now.Add(tt.expires)
		}
		tt.a.Now, tt.a.Entry = now, entry
		expect.Equal(t, string(respond.AppendCacheStatus(nil, &tt.a)), "tipcache"+tt.detail, "%s: AppendCacheStatus", name)
		w := httptest.NewRecorder()
		respond.New(nil, false).Respond(w, httptest.NewRequest(http.MethodGet, "/", nil), &tt.a)
		if h := w.Header(); h.Get("Age") != tt.age || h.Get("Cache-Control") != tt.control || h.Get("Cache-Status") != "tipcache"+tt.detail {
			t.Errorf("%s: Age, Cache-Control, Cache-Status = %s, %s, %s; want %s, %s, tipcache%s", name, h.Get("Age"), h.Get("Cache-Control"), h.Get("Cache-Status"), tt.age, tt.control, tt.detail)
		}
	}
}

func TestHeadersFollowKindOfResponse(t *testing.T) {
	plain := func() *cache.Entry {
		return &cache.Entry{Content: cache.NewContent(http.StatusOK, respond.JSON, "<x>", []byte("{}"), 0), Height: 7, ReadAt: time.Now()}
	}
	extra := []respond.ExtraHeader{{Name: "X-A", Value: "b"}, {Name: "X-H"}}
	for name, tt := range map[string]struct {
		a      respond.Response
		status int
		body   string
		want   map[string]string
	}{
		"with heights":     {respond.Response{ExtraHeaders: extra, EVMBlock: 9, Session: session.Token{Height: 7}, Reset: true}, 200, "{}", map[string]string{"X-A": "b", "X-H": "7", "X-Block-Height": "7", "X-Evm-Block": "9", "X-Session": "7", "X-Session-Reset": "true", "Link": "<x>"}},
		"without a height": {respond.Response{ExtraHeaders: extra, NoHeight: true, Session: session.Token{Height: 7}}, 200, "{}", map[string]string{"X-A": "", "X-Block-Height": "", "X-Evm-Block": "", "X-Session": "", "X-Session-Reset": ""}},
		"a poll":           {respond.Response{Next: "/next", Unchanged: true}, 204, "", map[string]string{"Link": `</next>; rel="next"`, "Content-Length": ""}},
		"a derived body":   {respond.Response{Body: []byte("[1]")}, 200, "[1]", map[string]string{"Content-Length": "3", "Etag": "", "Vary": ""}},
	} {
		w := httptest.NewRecorder()
		tt.a.Entry = plain()
		respond.New(nil, false).Respond(w, httptest.NewRequest(http.MethodGet, "/", nil), &tt.a)
		if w.Code != tt.status || w.Body.String() != tt.body {
			t.Errorf("%s: response = %d %s, want %d %s", name, w.Code, w.Body, tt.status, tt.body)
		}
		for header, want := range tt.want {
			expect.Equal(t, w.Header().Get(header), want, "%s: %s", name, header)
		}
	}
	h := http.Header{}
	if respond.SetHeight(h, 7, extra); h.Get("X-A") != "b" || h.Get("X-H") != "7" || h.Get("X-Block-Height") != "7" {
		t.Errorf("headers after SetHeight = %v, want X-A: b and the height 7 in X-H and X-Block-Height", h)
	}
}
