package proxy_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const newPath = "/dkg/committee/history"

// startNewer starts a proxy whose node has newPath, which no row describes.
func startNewer(t *testing.T, o story.Options) *chainService {
	t.Helper()
	s := startChain(t, proxy.Options{Chain: o})
	s.chain.byTarget[newPath+"?"] = recording{Status: 200, Raw: `{"code":200,"msg":{"b":1,"a":null},"error":""}` + "\n"}
	return s
}

func TestUnknownPathIsReadOncePerBlock(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startNewer(t, story.Options{Shape: shape})
		for range 2 {
			got := s.get(t, newPath)
			got.expect(t, http.StatusOK, `{"code":200,"msg":{"b":1,"a":null},"error":""}`+"\n")
			got.expectHeader(t, "X-Block-Height", "")
		}
		s.chain.grow(1)
		s.get(t, newPath)
		expect.Equal(t, s.chain.calls(), 2, "%s: node requests in two blocks", shape)
		if r := s.chain.lastRequest(); r.Cost != node.Unknown || !r.Unpinned || r.Post != nil || r.Ahead || r.Background {
			t.Errorf("%s: node request = %+v, want an unpinned foreground GET of cost unknown", shape, r)
		}
	}
}

func TestUnknownPathIsNeitherStreamedNorPolledNorBatched(t *testing.T) {
	s := startNewer(t, story.Options{})
	streamed, polled := s.get(t, newPath, "Accept", "text/event-stream"), s.get(t, newPath+"?since=0")
	streamed.expect(t, http.StatusOK)
	streamed.expectHeader(t, "Content-Type", "application/json")
	polled.expect(t, http.StatusOK)
	polled.expectHeader(t, "Link", "")
	for _, target := range []string{"/live?path=" + newPath, "/batch?path=" + newPath} {
		s.get(t, target).expect(t, http.StatusBadRequest, "this server does not know "+newPath+", and passes it to a node only if it is requested alone")
	}
}

// With a row, the responses of a path are the state at a block, and its parameters are read like those of other rows.
func TestRowOfOperatorMakesPathKnown(t *testing.T) {
	rows := []dialect.Row{
		{Name: "history", Pattern: newPath, Class: blocks.Live, Cost: node.Cheap, Query: "round delegator_addr kind pagination"},
		{Name: "prices", Pattern: "/oracle/{path=**}", Class: blocks.Never, Cost: node.Cheap, Query: "*"},
	}
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startNewer(t, story.Options{Shape: shape, Rows: rows})
		for range 2 {
			s.get(t, newPath).expectHeader(t, "X-Block-Height", "228")
			s.get(t, newPath, "X-Block-Height", "100").expectHeader(t, "X-Block-Height", "100")
		}
		s.get(t, newPath+"?kind=b&round=7&other=1&pagination.key=MTAxNA==")
		if r := s.chain.lastRequest(); s.chain.calls() != 3 || r.Query != "round=7&kind=b&pagination.key=MTAxNA%3D%3D" || r.Unpinned || r.Cost != node.Cheap {
			t.Errorf("%s: node requests = %d, the last %+v; want 3, the last with the named parameters", shape, s.chain.calls(), r)
		}
		s.chain.reply(http.StatusOK, `{"code":200,"msg":{},"error":""}`)
		for range 2 {
			s.get(t, "/oracle/a/b?x=2&x=1").expectHeader(t, "Cache-Status", "tipcache; fwd=bypass")
		}
		if r := s.chain.lastRequest(); s.chain.calls() != 5 || r.Path != "/oracle/a/b" || r.Query != "x=2&x=1" {
			t.Errorf("%s: node requests = %d, the last %+v; want 5, the last with all parameters", shape, s.chain.calls(), r)
		}
	}
	s := startNewer(t, story.Options{Rows: rows})
	s.get(t, newPath+"?delegator_addr=nope").expect(t, http.StatusBadRequest)
	s.get(t, "/openapi.json").expect(t, http.StatusOK, `"`+newPath+`"`)
	if !slices.ContainsFunc(story.Rows(rows), func(r dialect.Row) bool { return r.Name == "history" }) {
		t.Error("story.Rows has no row history, want the operator's rows in it")
	}
}
