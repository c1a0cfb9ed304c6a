package blocks_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// respond answers a query over HTTP, for a client with a session.
func (d *frontend) respond(t *testing.T, hs web.Heights, walk blocks.Snapshot, from *http.Request) http.Header {
	t.Helper()
	w := httptest.NewRecorder()
	r := web.NewHTTPRequest(w, from)
	r.Record.Start = time.Now()
	expect.NoError(t, d.Serve(r, d.query(hs, walk)()))
	return w.Header()
}

func TestHeadersDescribeLifetime(t *testing.T) {
	const vary = "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding"
	for name, tt := range map[string]struct {
		hs      web.Heights
		class   blocks.Class
		prepare func(d *frontend) // after the first answer is in memory
		want    map[string]string
	}{
		"the newest block": {web.Heights{}, blocks.Live, nil, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "0", "Cache-Control": "public, max-age=2, s-maxage=2", "Cache-Status": `tipcache; hit; ttl=2; detail="memory"`, "Vary": vary + ", X-Session",
		}},
		"within its block": {web.Heights{}, blocks.Live, func(*frontend) { time.Sleep(500 * time.Millisecond) }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "0", "Cache-Control": "public, max-age=1, s-maxage=1", "Cache-Status": `tipcache; hit; ttl=1; detail="memory"`, "Vary": vary + ", X-Session",
		}},
		"a block that a source claims again": {web.Heights{}, blocks.Live, func(d *frontend) { time.Sleep(1500 * time.Millisecond); d.nodes.tip.Seen = time.Now() }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "1", "Cache-Control": "public, max-age=0, s-maxage=0", "Cache-Status": `tipcache; hit; ttl=0; detail="memory"`, "Vary": vary + ", X-Session",
		}},
		"a block that is late": {web.Heights{}, blocks.Live, func(*frontend) { time.Sleep(2500 * time.Millisecond) }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "2", "Cache-Control": "public, max-age=0, s-maxage=0", "Cache-Status": `tipcache; hit; ttl=0; detail="memory"`, "Vary": vary + ", X-Session",
		}},
		"a height in a header": {web.Heights{Pinned: 90}, blocks.Live, nil, map[string]string{
			"X-Block-Height": "90", "Age": "0", "Cache-Control": "private, max-age=86400", "Cache-Status": `tipcache; hit; detail="memory"`, "Vary": vary,
		}},
		"a height in the URL": {web.Heights{Pinned: 90, InURL: true}, blocks.Live, nil, map[string]string{
			"X-Block-Height": "90", "Age": "0", "Cache-Control": "public, max-age=86400, immutable", "Cache-Status": `tipcache; hit; detail="memory"`, "Vary": vary,
		}},
		"a fixed answer": {web.Heights{}, blocks.Found, nil, map[string]string{
			"X-Block-Height": "100", "Age": "0", "Cache-Control": "public, max-age=86400, immutable", "Cache-Status": `tipcache; hit; detail="memory"`, "Vary": vary,
		}},
		"nodes that are behind": {web.Heights{}, blocks.Live, func(d *frontend) { d.nodes.tip.CatchingUp = true }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "0", "Cache-Control": "public, max-age=0, s-maxage=0", "Cache-Status": `tipcache; hit; ttl=0; detail="memory catching-up"`, "Vary": vary + ", X-Session",
		}},
		"an unconfirmed tip": {web.Heights{}, blocks.Live, func(d *frontend) { d.nodes.tip.Unconfirmed = true }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "0", "Cache-Control": "public, max-age=0, s-maxage=0", "Cache-Status": `tipcache; hit; ttl=2; detail="memory unconfirmed"`, "Vary": vary + ", X-Session",
		}},
		"a height in the URL with an unconfirmed tip": {web.Heights{Pinned: 90, InURL: true}, blocks.Live, func(d *frontend) { d.nodes.tip.Unconfirmed = true }, map[string]string{
			"X-Block-Height": "90", "Age": "0", "Cache-Control": "public, max-age=0", "Cache-Status": `tipcache; hit; detail="memory unconfirmed"`, "Vary": vary,
		}},
		"no tip": {web.Heights{}, blocks.Live, func(d *frontend) { d.nodes.tip.Known = false }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "0", "Cache-Control": "public, max-age=2, s-maxage=1", "Cache-Status": `tipcache; hit; ttl=2; detail="memory seconds"`, "Vary": vary + ", X-Session",
		}},
		"a node that fails": {web.Heights{}, blocks.Live, func(d *frontend) { d.nodes.grow(10); d.nodes.fails = true }, map[string]string{
			"X-Block-Height": "100", "X-Session": "100", "Age": "0", "Cache-Control": "public, max-age=0, s-maxage=0", "Cache-Status": `tipcache; fwd=stale; ttl=-18; detail="memory stale-if-error"`, "Vary": vary + ", X-Session",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.kind = d.Add(&blocks.Kind{Name: "other", Class: tt.class})
				from := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				d.respond(t, tt.hs, blocks.Snapshot{}, from)
				if tt.prepare != nil {
					tt.prepare(d)
				}
				got := map[string]string{}
				for name, values := range d.respond(t, tt.hs, blocks.Snapshot{}, from) {
					switch name {
					case "Content-Length", "Content-Type", "Etag":
					default:
						got[name] = values[0]
					}
				}
				expect.NoDiff(t, got, tt.want, "headers")
			})
		})
	}
}

func TestSessionContinuesUnlessItsBlockWasRolledBack(t *testing.T) {
	for name, tt := range map[string]struct {
		token      session.Token
		rolledBack string    // hash
		want       [3]string // X-Session, X-Session-Reset, Cache-Control
	}{
		"no session":          {session.Token{}, "", [3]string{"100.C3C3C3C3C3C3", "", "public, max-age=2, s-maxage=2"}},
		"an earlier block":    {session.Token{Height: 99, Hash: "A1A1A1A1"}, "", [3]string{"100.C3C3C3C3C3C3", "", "public, max-age=2, s-maxage=2"}},
		"a later block":       {session.Token{Height: 101, Hash: "A1A1A1A1"}, "", [3]string{"100.C3C3C3C3C3C3", "", "public, max-age=0, s-maxage=0"}},
		"a rolled back block": {session.Token{Height: 101, Hash: "A1A1A1A1"}, "A1A1A1A1", [3]string{"100.C3C3C3C3C3C3", "true", "private, no-cache"}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.hash, d.nodes.rolledBack = "C3C3C3C3C3C3D4D4", tt.rolledBack
				from := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				d.respond(t, web.Heights{}, blocks.Snapshot{}, from)
				h := d.respond(t, web.Heights{Session: tt.token}, blocks.Snapshot{}, from)
				got := [3]string{h.Get(session.Header), h.Get(session.ResetHeader), h.Get("Cache-Control")}
				expect.Equal(t, got, tt.want, "X-Session, X-Session-Reset and Cache-Control")
			})
		})
	}
}

func TestSessionCookieIsSetForNewBlock(t *testing.T) {
	for name, tt := range map[string]struct {
		cookie string
		limit  int64
		waited time.Duration
		set    string // the new cookie, "" for none
	}{
		"no cookie":                            {"", 0, 0, "100"},
		"an earlier block":                     {"99", 0, 0, "100"},
		"the same block":                       {"100", 0, 0, ""},
		"a later block, which does not arrive": {"101", 110, 500 * time.Millisecond, ""},
		"a block beyond the limit":             {"1000", 110, 0, "100"},
		"not a session":                        {"x", 0, 0, "100"},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.tip.Limit = tt.limit
				from := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				if tt.cookie != "" {
					from.AddCookie(&http.Cookie{Name: "tipcache-session-test-1", Value: tt.cookie})
				}
				began := time.Now()
				h := d.respond(t, web.Heights{}, blocks.Snapshot{}, from)
				expect.Equal(t, time.Since(began), tt.waited, "wait")
				set := ""
				if tt.set != "" {
					set = "tipcache-session-test-1=" + tt.set + "; Path=/; HttpOnly; SameSite=Strict"
				}
				expect.Equal(t, h.Get("Set-Cookie"), set, "Set-Cookie")
				expect.Equal(t, h.Get("Cache-Control"), respond.OwnAnswer, "Cache-Control")
			}, func(o *web.Options) { o.SessionCookie = true })
		})
	}
}

func TestAnswerFromLaterBlockRaisesTip(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.nodes.grow(2)
		d.get(t, web.Heights{}, blocks.Snapshot{})
		d.nodes.grow(-2)
		from := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if got := d.respond(t, web.Heights{}, blocks.Snapshot{}, from).Get("X-Block-Height"); got != "102" || d.nodes.raised != 102 {
			t.Errorf("served block %s, tip raised to %d; want 102 for both", got, d.nodes.raised)
		}
	})
}

func TestKindAddsItsOwnHeaders(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.kind = d.Add(&blocks.Kind{Name: "other", Class: blocks.Live, Headers: func(*cache.Entry, string) blocks.ResponseHeaders {
			return blocks.ResponseHeaders{Vary: "X-Other", Extra: []respond.ExtraHeader{{Name: "Grpc-Metadata-X-Cosmos-Block-Height"}, {Name: "X-Fixed", Value: "yes"}}}
		}})
		from := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		h := d.respond(t, web.Heights{}, blocks.Snapshot{}, from)
		got := [3]string{h.Get("Grpc-Metadata-X-Cosmos-Block-Height"), h.Get("X-Fixed"), h.Get("Vary")}
		expect.Equal(t, got, [3]string{"100", "yes", "X-Other, Accept-Encoding, X-Session"}, "headers")
	})
}

func TestFixedAnswersAreNotMeasuredAsStale(t *testing.T) {
	for name, tt := range map[string]struct {
		hs    web.Heights
		class blocks.Class
		want  bool
	}{
		"the newest block": {web.Heights{}, blocks.Live, false},
		"a named block":    {web.Heights{Pinned: 90}, blocks.Live, true},
		"a fixed answer":   {web.Heights{}, blocks.Found, true},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.kind = d.Add(&blocks.Kind{Name: "other", Class: tt.class})
				r := web.NewHTTPRequest(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				r.Record.Start = time.Now()
				expect.NoError(t, d.Serve(r, d.query(tt.hs, blocks.Snapshot{})()))
				expect.Equal(t, r.Record.Pinned, tt.want, "Pinned")
			})
		})
	}
}
