package dialect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestFirstRowThatMatchesServesThePath(t *testing.T) {
	r := expect.Value(blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil))(t)
	table := NewTable(Options{Prefix: "test", Manner: Strict}, r)
	for _, row := range []Row{
		{Name: "any_sizes", Pattern: "/{module}/v1/sizes"},
		{Name: "things", Pattern: "/things/v1/{id}"},
		{Name: "sizes", Pattern: "/things/v1/sizes"}, // hidden by both
		{Name: "any", Pattern: "/{module}/v1/{id}"},
		{Name: "parts", Pattern: "/things/v1/{id}/parts"},
		{Name: "short", Pattern: "/things"},
	} {
		expect.Value(table.Mount(row, lookup, &blocks.Kind{}, nil))(t)
	}
	for path, want := range map[string]string{
		"/things/v1/sizes": "any_sizes", "/things/v1/7": "things", "/others/v1/sizes": "any_sizes", "/others/v1/7": "any",
		"/things/v1/7/parts": "parts", "/things": "short", "/others": "", "/things/v2/7": "",
	} {
		route, ok := table.Route(newRequest(t, path))
		if route.Name != want || ok != (want != "") {
			t.Errorf("Route(%s) = %q, %t; want %q", path, route.Name, ok, want)
		}
	}
}

// Only the first of the rows that match a path may be a route by its pattern alone.
func TestRoutesAreRowsThatNoEarlierRowMeets(t *testing.T) {
	r := expect.Value(blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil))(t)
	for name, tt := range map[string]struct {
		patterns []string
		want     []string
	}{
		"apart":                    {[]string{"/a", "/a/{x}", "/b/{x}/c", "/b/{x}"}, []string{"/a", "/a/{x}", "/b/{x}/c", "/b/{x}"}},
		"a variable first":         {[]string{"/{x}/b", "/a/b", "/{x}/c"}, []string{"/{x}/b", "/{x}/c"}},
		"a literal first":          {[]string{"/a/b", "/a/{x}"}, []string{"/a/b"}},
		"variables that cross":     {[]string{"/a/{x}", "/{x}/b"}, []string{"/a/{x}"}},
		"the rest":                 {[]string{"/a/{rest=**}", "/a/b", "/b"}, []string{"/b"}},
		"the rest after a literal": {[]string{"/a/b", "/a/{rest=**}"}, []string{"/a/b"}},
	} {
		table := NewTable(Options{Prefix: "test"}, r)
		for i, pattern := range tt.patterns {
			expect.Value(table.Mount(Row{Name: fmt.Sprint(i), Pattern: pattern}, lookup, &blocks.Kind{}, nil))(t)
		}
		var got []string
		for _, rt := range table.Routes() {
			got = append(got, rt.Pattern)
		}
		expect.NoDiff(t, got, tt.want, "%s: routes", name)
	}
}

func TestKeysOfARowAreSelectedByItsName(t *testing.T) {
	r := expect.Value(blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil))(t)
	table := NewTable(Options{Prefix: "test", Manner: Strict}, r)
	for _, row := range []Row{{Name: "things", Pattern: "/things"}, {Name: "thing", Pattern: "/things/{id}"}} {
		expect.Value(table.Mount(row, lookup, &blocks.Kind{}, nil))(t)
	}
	for name, want := range map[string]string{"things": "test/things", "thing": "test/things/*"} {
		got, err := table.SelectRoute(name)
		if err != nil || got.Path != want {
			t.Errorf("SelectRoute(%s) = %+v, %v; want path %s", name, got, err, want)
		}
	}
	if got, err := table.SelectRoute("thinks"); err == nil || !strings.Contains(err.Error(), "things") {
		t.Errorf("SelectRoute(thinks) = %+v, %v; want an error that names things", got, err)
	}
}

func TestSelectionOfARowHasTheKeysOfItsRequests(t *testing.T) {
	r := expect.Value(blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil))(t)
	for pattern, path := range map[string]string{
		"/things/{id}":                   "/things/7",
		"/a+b/$/{id}":                    "/a+b/$/7",
		"/a*b/{rest=**}":                 "/a*b/7/8",
		"/{id}/a+b/{rest=**}":            "/7/a+b/8/9",
		"/a/{id}/b/{rest=**}":            "/a/7/b/8",
		"/a/{id}/b/{part}/c/{rest=**}":   "/a/7/b/8/c/9",
		"/a/{id}/{part}/{more}/{x=**}":   "/a/7/8/9/10",
		"/a/{id}/b/{part}/{rest=**}":     "/a/7/b/8/",
		"/a/{id}/%2B/{part}/c/{rest=**}": "/a/*/%2B/@/c/?",
	} {
		table := NewTable(Options{Prefix: "test", Manner: Strict}, r)
		ep := expect.Value(table.Mount(Row{Name: "row", Pattern: pattern}, lookup, &blocks.Kind{}, nil))(t)
		request := newRequest(t, "/")
		request.URL.Path = path
		if table.Endpoint(request) != ep {
			t.Fatalf("Endpoint(%s) is not the row of %s", path, pattern)
		}
		key := expect.Value(ep.Parse(request))(t).Key
		selection := expect.Value(table.SelectRoute("row"))(t)
		if !selection.Has(key) {
			t.Errorf("selection of %s = %+v, want it to have the key %s", pattern, selection, key)
		}
		if selection.Has("test/others/7") {
			t.Errorf("selection of %s = %+v, want it without the key test/others/7", pattern, selection)
		}
	}
}

func TestRequestsWithBodyAreRefused(t *testing.T) {
	r := expect.Value(blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil))(t)
	for body, ok := range map[string]bool{"": true, "x": false} {
		ep := expect.Value(NewTable(Options{Prefix: "test", NoBody: true, Manner: Strict}, r).Mount(Row{Name: "things", Pattern: "/things"}, lookup, &blocks.Kind{}, nil))(t)
		if _, err := ep.Parse(web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", strings.NewReader(body)))); (err == nil) != ok {
			t.Errorf("Parse with the body %q = %v, want success %t", body, err, ok)
		}
		chunked := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
		if _, err := ep.Parse(web.NewRequest(chunked)); err == nil {
			t.Errorf("Parse with the chunked body %q, which breaks off: error = nil, want one", body)
		}
	}
}

func TestHeightIsReadOnlyForState(t *testing.T) {
	r := expect.Value(blocks.New(blocks.Options{Nodes: struct{ blocks.Nodes }{}}, web.New(web.Options{}, nil), nil))(t)
	for class, want := range map[blocks.Class]int64{blocks.Live: 7, blocks.Latest: 0, blocks.Block: 0} {
		ep := expect.Value(NewTable(Options{Prefix: "test"}, r).Mount(Row{Name: "things", Pattern: "/things", Class: class}, lookup, &blocks.Kind{}, nil))(t)
		request := newRequest(t, "/things")
		request.Header.Set("X-Block-Height", "7")
		if q, err := ep.Parse(request); err != nil || q.Pinned != want {
			t.Errorf("height of class %v = %+v, %v, want %d", class, q, err, want)
		}
	}
}

// atBlock100 are nodes of a chain whose newest block is 100.
type atBlock100 struct{ blocks.Nodes }

func (atBlock100) Tip() node.Tip { return node.Tip{Height: 100, Known: true, Since: time.Now()} }

func (atBlock100) WaitHeight(context.Context, int64) error { return context.DeadlineExceeded }
func (atBlock100) Expected(node.Request) time.Duration     { return 0 }
func (atBlock100) Replaced(int64, string) bool             { return false }
func (atBlock100) HashOf(int64) string                     { return "" }

// echoing is a source that answers with the height and path of the request.
type echoing struct {
	reads  int
	behind int64 // blocks
}

func (u *echoing) Ask(_ context.Context, _ *blocks.Read, r node.Request, _ *cache.Entry) (*node.Answer, error) {
	u.reads++
	return &node.Answer{Body: fmt.Appendf(nil, "%d %t %s", r.Height, r.Unpinned, r.Path), Height: 100 - u.behind}, nil
}

func (u *echoing) Entry(_ *blocks.Read, a *node.Answer, _ *cache.Entry) (*cache.Entry, error) {
	return &cache.Entry{Content: cache.NewContent(http.StatusOK, "text/plain", "", a.Body, 0), Height: a.Height}, nil
}

func TestPassedRequestWaitsForItsBlock(t *testing.T) {
	memory := expect.Value(cache.New(cache.Options{}))(t)
	defer memory.Close()
	r := expect.Value(blocks.New(blocks.Options{Nodes: atBlock100{}}, web.New(web.Options{}, nil), memory))(t)
	kind := &blocks.Kind{Headers: func(*cache.Entry, string) blocks.ResponseHeaders { return blocks.ResponseHeaders{} }}
	for header, want := range map[string]string{"": "-1 true /things", "100": "-1 true /things", "101": ""} {
		origin := new(echoing)
		ep, err := NewTable(Options{Prefix: "test"}, r).Mount(Row{Name: "things", Pattern: "/things"}, lookup, kind, origin)
		expect.NoError(t, err)
		w := httptest.NewRecorder()
		request := web.NewHTTPRequest(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", nil))
		request.Header.Set(respond.MinHeightHeader, header)
		q := expect.Value(ep.Parse(request))(t)
		err = ep.Pass(request, q)
		if h := w.Header(); w.Body.String() != want || (err == nil) != (want != "") || want != "" && (h.Get("Cache-Status") != "tipcache; fwd=bypass" || h.Get("X-Block-Height") != "100") || origin.reads != min(len(want), 1) {
			t.Errorf("with a minimum height of %q: %v, %q, header %v, %d reads; want %q", header, err, w.Body, h, origin.reads, want)
		}
	}
}

func TestPassedAnswerBelowTheRequiredBlockIsRefused(t *testing.T) {
	memory := expect.Value(cache.New(cache.Options{}))(t)
	defer memory.Close()
	r := expect.Value(blocks.New(blocks.Options{Nodes: atBlock100{}}, web.New(web.Options{}, nil), memory))(t)
	ep := expect.Value(NewTable(Options{Prefix: "test"}, r).Mount(Row{Name: "things", Pattern: "/things"}, lookup, &blocks.Kind{}, &echoing{behind: 1}))(t)
	for header, want := range map[string]string{"99": "", "100": "the chain node does not have block 100 yet; its answer is from block 99"} {
		w := httptest.NewRecorder()
		request := web.NewHTTPRequest(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/things", nil))
		request.Header.Set(respond.MinHeightHeader, header)
		got := ""
		if err := ep.Pass(request, expect.Value(ep.Parse(request))(t)); err != nil {
			got = failure.Of(err).Public
		}
		expect.Equal(t, got, want, "failure of an answer at block 99 with a minimum height of %s", header)
		expect.Equal(t, w.Body.Len() > 0, want == "", "a response with a minimum height of %s", header)
	}
}

func TestRequestsAreServedByTheirClass(t *testing.T) {
	memory := expect.Value(cache.New(cache.Options{}))(t)
	defer memory.Close()
	stack := web.New(web.Options{}, memory)
	r := expect.Value(blocks.New(blocks.Options{Nodes: atBlock100{}}, stack, memory))(t)
	for name, tt := range map[string]struct {
		class  blocks.Class
		target string
		status int
		body   string
		typos  string
		asks   string // of the plan; "" if there is none
		key    string // of the feed; "" if there is none
	}{
		"cached":      {blocks.Live, "/things/7?size=1", 200, "-1 false /things/7", "", "the node for /things/7?size=1", "test/things/7?size=1"},
		"with a typo": {blocks.Live, "/things/8?sise=1", 200, "-1 false /things/8", "sise (did you mean size?)", "the node for /things/8", "test/things/8"},
		"passed on":   {blocks.Never, "/things/7", 200, "-1 true /things/7", "", "", ""},
		"malformed":   {blocks.Live, "/things/7?size=x", 400, "size is", "", "", ""},
	} {
		table := NewTable(Options{Prefix: "test", Manner: Strict, Render: func(_ *web.Request, _ http.Header, f *failure.Failure) (int, string, []byte) {
			return f.Status, "text/plain", []byte(f.Public)
		}}, r)
		ep := expect.Value(table.Mount(Row{Name: "things", Pattern: "/things/{id}", Class: tt.class, Query: "size:number"}, lookup, &blocks.Kind{}, new(echoing)))(t)
		handler := stack.NewEngine(nil, func(r *web.Request) web.Route { rt, _ := table.Route(r); return rt }).Handler()
		w, request := httptest.NewRecorder(), newRequest(t, tt.target)
		handler.ServeHTTP(w, request.Request)
		expect.Response(t, name, w.Code, w.Body.String(), tt.status, tt.body)
		expect.Equal(t, w.Header().Get(respond.UnknownHeader), tt.typos, "%s: typos", name)

		plan, err := ep.Route.Plan(request)
		if plan.Asks != tt.asks || (err != nil) != (tt.body == "size is") || (plan.NoLane != "") != (tt.typos != "") {
			t.Errorf("%s: plan = %q, no lane %q, %v; want %q", name, plan.Asks, plan.NoLane, err, tt.asks)
		}
		if ep.Route.Feed == nil {
			expect.Equal(t, tt.class, blocks.Never, "%s: class without a feed", name)
			continue
		}
		if feed, err := ep.Route.Feed(request); feed.Key != tt.key || (err == nil) != (tt.key != "") {
			t.Errorf("%s: feed = %q, %v; want %q", name, feed.Key, err, tt.key)
		}
	}
}

func newRequest(t *testing.T, target string) *web.Request {
	return web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
}
