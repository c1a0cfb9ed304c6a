package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const newPath = "/dkg/committee/history"

// startNewer starts a proxy whose node answers newPath, which no row describes, and has no other unknown path.
func startNewer(t *testing.T, o story.Options) *chainService {
	t.Helper()
	s := startChain(t, proxy.Options{Chain: o})
	s.chain.byTarget[newPath+"?"] = recording{Status: 200, Raw: `{"code":200,"msg":{"b":1,"a":null},"error":""}` + "\n"}
	return s
}

func TestUnknownPathIsAnsweredByTheNodeOncePerBlock(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startNewer(t, story.Options{Shape: shape})
		for range 2 {
			got := s.get(t, newPath)
			if got.status != http.StatusOK || got.body != `{"code":200,"msg":{"b":1,"a":null},"error":""}`+"\n" {
				t.Errorf("%s: %d %s", shape, got.status, got.body)
			}
			got.has(t, "X-Block-Height", "")
		}
		s.chain.grow(1)
		s.get(t, newPath)
		expect.Equal(t, s.chain.calls(), 2, "%s: node requests in two blocks", shape)
		if r := s.chain.last(); r.Cost != node.Unknown || !r.Unpinned || r.Post != nil || r.Ahead || r.Background {
			t.Errorf("%s: the node got %+v, want an unpinned foreground GET of cost unknown", shape, r)
		}
	}
}

func TestUnknownPathIsNeitherStreamedNorPolledNorBatched(t *testing.T) {
	s := startNewer(t, story.Options{})
	if got := s.get(t, newPath, "Accept", "text/event-stream"); got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("a stream: %d %s, want one JSON response", got.status, got.header.Get("Content-Type"))
	}
	if got := s.get(t, newPath+"?since=0"); got.status != http.StatusOK || got.header.Get("Link") != "" {
		t.Errorf("a poll: %d with Link %q, want a plain response", got.status, got.header.Get("Link"))
	}
	for _, target := range []string{"/live?path=" + newPath, "/batch?path=" + newPath} {
		s.get(t, target).wants(t, http.StatusBadRequest, "this server does not know "+newPath+", and passes it to a node only if it is requested alone")
	}
}

// A row makes the path one whose responses are the state at a block. Named parameters are read as those of other rows.
func TestRowLiftsTheLimitsOfAPath(t *testing.T) {
	rows := []dialect.Row{
		{Name: "history", Pattern: newPath, Class: blocks.Live, Cost: node.Cheap, Query: "round delegator_addr kind pagination"},
		{Name: "prices", Pattern: "/oracle/{path=**}", Class: blocks.Never, Cost: node.Cheap, Query: "*"},
	}
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startNewer(t, story.Options{Shape: shape, Rows: rows})
		for range 2 {
			s.get(t, newPath).has(t, "X-Block-Height", "228")
			s.get(t, newPath, "X-Block-Height", "100").has(t, "X-Block-Height", "100")
		}
		s.get(t, newPath+"?kind=b&round=7&other=1&pagination.key=MTAxNA==")
		if r := s.chain.last(); s.chain.calls() != 3 || r.Query != "round=7&kind=b&pagination.key=MTAxNA%3D%3D" || r.Unpinned || r.Cost != node.Cheap {
			t.Errorf("%s: %d node requests, the last %+v", shape, s.chain.calls(), r)
		}
		s.chain.says(http.StatusOK, `{"code":200,"msg":{},"error":""}`)
		for range 2 {
			s.get(t, "/oracle/a/b?x=2&x=1").has(t, "Cache-Status", "tipcache; fwd=bypass")
		}
		if r := s.chain.last(); s.chain.calls() != 5 || r.Path != "/oracle/a/b" || r.Query != "x=2&x=1" {
			t.Errorf("%s: %d node requests, the last %+v", shape, s.chain.calls(), r)
		}
	}
	s := startNewer(t, story.Options{Rows: rows})
	s.get(t, newPath+"?delegator_addr=nope").wants(t, http.StatusBadRequest)
	if got := s.get(t, "/openapi.json"); !strings.Contains(got.body, `"`+newPath+`"`) {
		t.Error("document lacks the row")
	}
	if !slices.ContainsFunc(story.Rows(rows), func(r dialect.Row) bool { return r.Name == "history" }) {
		t.Error("Rows has no row of the operator")
	}
}
