package story

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// pathNodes have every path that does not begin with /absent.
type pathNodes struct {
	epochNodes
	targets []string // of requests
}

func (pathNodes) Expected(node.Request) time.Duration     { return 0 }
func (pathNodes) Replaced(int64, string) bool             { return false }
func (pathNodes) HashOf(int64) string                     { return "" }
func (pathNodes) WaitHeight(context.Context, int64) error { return nil }
func (n *pathNodes) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	n.targets = append(n.targets, r.Path+"?"+r.Query)
	if strings.HasPrefix(r.Path, "/absent") {
		return &node.Answer{Reason: node.NotFound, Status: 404, NodeStatus: 404, NoPath: true}, nil
	}
	return &node.Answer{Status: 200, NodeStatus: 200, Height: 1000, Type: "text/x", Body: []byte(`{"code":200,"msg":1,"error":""}`)}, nil
}

func TestUnknownPathsArePassedToTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expect.Value(cache.New(cache.Options{}))(t)
		defer c.Close()
		nodes, stack := &pathNodes{}, web.New(web.Options{}, c)
		r := expect.Value(blocks.New(blocks.Options{Nodes: nodes}, stack, c))(t)
		noSuch := func(*web.Request) *failure.Failure {
			return &failure.Failure{Status: http.StatusNotFound, Public: "no such path"}
		}
		h := expect.Value(New(Options{NoSuchPath: noSuch}, nil, r))(t)
		handler := stack.NewEngine(nil, func(r *web.Request) web.Route { rt, _ := h.Route(r); return rt }).Handler()
		for _, tt := range []struct {
			path   string
			status int
			reads  int // of nodes, in total
			body   string
		}{
			{"/other?b=1&a=2", 200, 1, ""},
			{"/other?b=1&a=2", 200, 1, ""}, // from the cache
			{"/other?" + strings.Repeat("x", maxUnknownQuery), 200, 2, ""},
			{"/other?" + strings.Repeat("x", maxUnknownQuery+1), 400, 2, "no longer one is passed"},
			{"http://x.example/other?b=1&a=2", 200, 2, ""},
			{"http://x.example/a//b", 404, 2, `with \"//\" is not passed`},
			{"*", 404, 2, `with \"*\" is not passed`},
			{"/a//b", 404, 2, `with \"//\" is not passed`},
			{"/a%2Fb", 404, 2, `with \"%2f\" is not passed`},
			{"/a%5cb", 404, 2, `\"%5c\"`},
			{"/a%5Cb", 404, 2, `\"%5c\"`},
			{"/a..b", 404, 2, `\"..\"`},
			{"/a%01b", 404, 2, "control characters"},
			{"/absent", 404, 3, `"no such path"`},
			{"/absent?x=1", 404, 3, `"no such path"`}, // remembered
			{"/absent2", 404, 4, `"no such path"`},
		} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil))
			if w.Code != tt.status || len(nodes.targets) != tt.reads || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%.40s: response = %d %s after %d reads, want %d with %q after %d", tt.path, w.Code, w.Body, len(nodes.targets), tt.status, tt.body, tt.reads)
			}
			rt, _ := h.Route(newRequest(t, tt.path))
			plan, err := rt.Plan(newRequest(t, tt.path))
			if (err == nil) != (tt.status == 200) || err != nil && failure.Of(err).Status != tt.status || err == nil && plan.NoLane != "this server does not know the path" {
				t.Errorf("%.40s: plan = %+v, %v; want status %d and a request outside the lane", tt.path, plan, err, tt.status)
			}
			if w.Header().Get("X-Block-Height") != "" || tt.status == 200 && w.Header().Get("Vary") != "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept-Encoding, X-Session" {
				t.Errorf("%.40s: header = %v, want no X-Block-Height, and Vary without Accept", tt.path, w.Header())
			}
		}
		request := newRequest(t, "/other?b=1&a=2")
		request.Header.Set("X-Block-Height", "7")
		for range 2 { // is not cached
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, request.Request); w.Code != 200 || w.Header().Get("Cache-Status") != "tipcache; fwd=bypass" || w.Header().Get("X-Block-Height") != "" {
				t.Errorf("response at a height = %d %v, want 200 and fwd=bypass without X-Block-Height", w.Code, w.Header())
			}
		}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/other", strings.NewReader("x"))); w.Code != 400 {
			t.Errorf("status of a GET with a body = %d, want 400", w.Code)
		}
		expect.Equal(t, len(nodes.targets), 6, "reads")
		expect.Equal(t, nodes.targets[0], "/other?b=1&a=2", "target of the first read")
		time.Sleep(3 * time.Second)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/absent", nil))
		expect.Equal(t, len(nodes.targets), 7, "reads after a request for an absent path 3s later")
	})
}

func TestFailuresHaveTheFormOfTheShape(t *testing.T) {
	for shape, want := range map[Shape][2]string{
		Documented: {`{"code":404,"msg":{},"error":"no"}`, `{"code":500,"msg":null,"error":"no"}`},
		Node:       {"404 page not found", `{"code":500,"msg":null,"error":"no"}`},
	} {
		for i, f := range []*failure.Failure{{Status: 404, Public: "no"}, {Status: 500, Public: "no", NullMsg: true, RetryAfter: time.Second}} {
			h := http.Header{}
			status, typ, body := MissRenderer(shape)(nil, h, f)
			if status != f.Status || strings.TrimSpace(string(body)) != want[i] || (typ == "application/json") != (body[0] == '{') || (h.Get("Retry-After") == "1") != (i == 1) {
				t.Errorf("%s: failure %d = %d %s %s with Retry-After %q, want %s", shape, f.Status, status, typ, body, h.Get("Retry-After"), want[i])
			}
		}
	}
}

func TestKeysAreSelectedByAnAddress(t *testing.T) {
	const account = "0xAa00000000000000000000000000000000000000"
	key := "0x02" + strings.Repeat("0", 63) + "1"
	documented, asNode := newHandler(t, &epochNodes{}, Options{RefuseUnknown: true}), newHandler(t, &epochNodes{}, Options{RefuseUnknown: true, Shape: Node})
	for _, tt := range []struct {
		h             *Handler
		address, want string // "" for an error
	}{
		{documented, account, strings.ToLower(account)}, {documented, key, key}, {documented, "no", ""}, {documented, "", ""},
		{asNode, account, strings.ToLower(account)}, {asNode, "story1?", "story1%3F"}, {asNode, "", ""},
	} {
		got, err := tt.h.SelectAddress(tt.address)
		if got.Contains != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("SelectAddress(%s) in the %s shape = %+v, %v, want %s", tt.address, tt.h.o.Shape, got, err, tt.want)
		}
	}
}

func TestPageKeyIsSentInTheFormOfTheNode(t *testing.T) {
	raw := "\x14abcdefghijklmnopqrst"
	for _, shape := range []Shape{Documented, Node} {
		h := newHandler(t, &epochNodes{}, Options{RefuseUnknown: true, Shape: shape})
		for query, want := range map[string][2]node.Request{
			"pagination.limit=2": {{Query: "pagination.limit=2"}, {Query: "pagination.limit=2"}},
			"pagination.key=%14abcdefghijklmnopqrst&pagination.limit=2": {{Query: "pagination.limit=2", PageKey: raw}, {Query: "pagination.key=%14abcdefghijklmnopqrst&pagination.limit=2", Keys: node.RawKeys}},
			"status=1&pagination.key=FGFiY2RlZmdoaWprbG1ub3BxcnN0":      {{Query: "status=1", PageKey: "FGFiY2RlZmdoaWprbG1ub3BxcnN0"}, {Query: "status=1&pagination.key=FGFiY2RlZmdoaWprbG1ub3BxcnN0", Keys: node.Base64Keys}},
			"pagination.key=x": {{PageKey: "x"}, {Query: "pagination.key=x", Keys: node.UnknownKeys}},
		} {
			o := &origin{h: h, route: Route{page: lengthPrefixed}}
			i := 0
			if shape == Node {
				i = 1
			}
			expect.Equal(t, o.withKey(node.Request{Query: query}), want[i], "request with %s in the %s shape", query, shape)
		}
	}
}

func TestNodeShapeReadsHeightsLikeTheNode(t *testing.T) {
	for sent, want := range map[string]int64{"": 0, "7": 7, "x": 0, "-1": -1, "9223372036854775808": 0} {
		h := http.Header{}
		if sent != "" {
			h.Set("X-Block-Height", sent)
		}
		if got, err := nodeHeight(h); got != max(0, want) || (err != nil) != (want < 0) || err != nil && failure.Of(err).Status != 500 {
			t.Errorf("height of %q = %d, %v, want %d", sent, got, err, want)
		}
	}
}
