package proxy_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

// bothShapes serves the documented shape at the root and the node's below /api.
func bothShapes() []proxy.Mount {
	return []proxy.Mount{{Path: "/"}, {Path: "/api", Shape: story.Node}, {Path: "/api/deep/er"}}
}

// unfollowed sends a GET and returns a redirect as it is.
func (s *chainService) unfollowed(t *testing.T, target string) exchange {
	t.Helper()
	client := s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer func() { client.CheckRedirect = nil }()
	return s.get(t, target)
}

func TestEachMountAnswersInItsShape(t *testing.T) {
	s := startChain(t, proxy.Options{Mounts: bothShapes()})
	const target = "/distribution/delegators/" + del0 + "/rewards"
	asSent := startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}}).get(t, target)
	documented := startChain(t, proxy.Options{}).get(t, target)
	if asSent.body == documented.body {
		t.Fatalf("body in both shapes = %s, want different bodies", documented.body)
	}
	for range 3 { // by the handler and by the fast lane
		for base, want := range map[string]exchange{"": documented, "/api": asSent, "/api/deep/er": documented} {
			if got := s.get(t, base+target); got.status != want.status || got.body != want.body {
				t.Errorf("%s%s = %d %s, want %d %s", base, target, got.status, got.body, want.status, want.body)
			}
		}
	}
	s.get(t, "/apiary"+poolPath).expectRefusal(t, http.StatusNotFound, chainRefusal(http.StatusNotFound, "no such path: /apiary"+poolPath))
	if got := s.get(t, "/api/nowhere"); got.status != http.StatusNotFound || got.body != "404 page not found\n" {
		t.Errorf("/api/nowhere = %d %s, want the response of the node", got.status, got.body)
	}
}

func TestDoubledSlashesInBasePathCountAsOne(t *testing.T) {
	s := startChain(t, proxy.Options{Mounts: []proxy.Mount{{Path: "/api/v1"}}})
	want := s.get(t, "/api/v1/staking/validators/"+val5)
	want.expect(t, http.StatusOK)
	for _, base := range []string{"//api/v1", "/api//v1", "/api/v1/", "///api//v1//"} {
		for _, path := range []string{"/staking/validators/" + val5, "/%73taking/validators/" + val5} {
			got := s.get(t, base+path)
			expect.Equal(t, got.status, http.StatusOK, "status of %s%s", base, path)
			expect.Equal(t, got.body, want.body, "body of %s%s", base, path)
		}
	}
	for _, path := range []string{"/ap/i/v1", "/apiv1", "/api/v1x"} {
		s.get(t, path+poolPath).expect(t, http.StatusNotFound)
	}
}

func TestDocumentDescribesMountAtPath(t *testing.T) {
	for _, m := range bothShapes() {
		text := expect.Value(proxy.Document(proxy.Options{Mounts: bothShapes()}, m.Path))(t)
		if want := `"url":"` + m.Path + `"}`; !strings.Contains(string(text), want) {
			t.Errorf("document of %s has no server with %s", m.Path, want)
		}
	}
	if _, err := proxy.Document(proxy.Options{Mounts: bothShapes()}, "/other"); err == nil {
		t.Error("Document of a path that is not mounted: error = nil, want one")
	}
}

// Browsers can read Cache-Control always. Pages need no other of the headers that are left out here.
func TestDocumentedHeadersAreExposedToBrowsers(t *testing.T) {
	var document struct {
		Components struct{ Headers map[string]any }
	}
	expect.NoError(t, json.Unmarshal(expect.Value(proxy.Document(proxy.Options{}, "/"))(t), &document))
	names := slices.Collect(maps.Keys(document.Components.Headers))
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains([]string{"Accept", "Accept-Encoding", "Accept-Query", "Age", "Cache-Control", "WWW-Authenticate"}, name)
	})
	s := startChain(t, proxy.Options{Dialect: node.Cosmos, Web: web.Options{Settings: web.Settings{CORSOrigins: []string{"*"}}}})
	exposed := strings.Split(s.get(t, "/live", "Origin", "https://app.example").header.Get("Access-Control-Expose-Headers"), ", ")
	for _, name := range append(names, "X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height") {
		if !slices.Contains(exposed, name) {
			t.Errorf("Access-Control-Expose-Headers = %q, want also %s", exposed, name)
		}
	}
}

func TestOnlyGRPCWebPostsAreServedAsGRPCWeb(t *testing.T) {
	s := startChain(t, proxy.Options{Dialect: node.Cosmos, GRPC: &grpc.Options{}})
	for contentType, want := range map[string]bool{grpc.WebType + "+proto": true, "Application/GRPC-Web": true, respond.JSON: false} {
		resp := s.do(t, http.MethodPost, "/no.such.Service/Method", "{}", "Content-Type", contentType)
		expect.Equal(t, resp.header.Get("Grpc-Status") != "", want, "response to %s has Grpc-Status", contentType)
		expect.Equal(t, resp.body == "", want, "response to %s has no body", contentType)
	}
}

func TestGRPCKnowsRowsOfOperator(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) {
		o.GRPC, o.Methods = &grpc.Options{}, []dialect.Row{{Name: "clob", Method: "/own.clob.Query/Order"}}
	})
	for method, want := range map[string]string{
		"/own.clob.Query/Orders": "unknown method Orders for service own.clob.Query",
		"/own.none.Query/Orders": "unknown service own.none.Query",
	} {
		got := s.do(t, http.MethodPost, method, "\x00\x00\x00\x00\x00", "Content-Type", grpc.WebType+"+proto")
		got.expectHeader(t, "Grpc-Message", want)
	}
}

func TestChainAPIIsServedOnlyBelowMounts(t *testing.T) {
	s := startChain(t, proxy.Options{Mounts: []proxy.Mount{{Path: "/api"}}})
	for _, target := range []string{"/", poolPath, "/batch", "/docs", "/openapi.json", "/live", "/Api" + poolPath} {
		s.get(t, target).expectRefusal(t, http.StatusNotFound, chainRefusal(http.StatusNotFound, "no such path: "+target))
	}
	s.get(t, "/api"+poolPath).expect(t, http.StatusOK)
}

func TestCollectionsAreServedNextToMountAtAPI(t *testing.T) {
	for _, mounts := range [][]proxy.Mount{bothShapes(), {{Path: "/api"}}} {
		store := &listStore{}
		store.setCollections(worldOfWomen())
		s := startChain(t, proxy.Options{Mounts: mounts, Collections: &listing.Options{Store: store, NoAuth: true}})
		post := func(path string) exchange {
			return s.do(t, http.MethodPost, path, "{}", "Content-Type", "application/json")
		}
		for _, base := range []string{"", "/api"} {
			got := post(base + listPath)
			if schema := `{"$schema":"` + s.URL + base + `/api/v4/CollectionPage.json",`; got.status != http.StatusOK || !strings.HasPrefix(got.body, schema) {
				t.Errorf("%s = %d %.200s, want a page that begins with %s", base+listPath, got.status, got.body, schema)
			}
			got.expectHeader(t, "Link", "<"+base+`/api/v4/CollectionPage.json>; rel="describedBy"`)
			s.get(t, base+"/api/v4/CollectionPage.json").expect(t, http.StatusOK)
			refused := post(base + "/api/v4/nothing")
			refused.expectHeader(t, "Link", "<"+base+`/api/v4/Problem.json>; rel="describedBy"`)
			if instance := `"instance":"` + base + "/api/v4/nothing#"; refused.status != http.StatusNotFound || !strings.Contains(refused.body, instance) {
				t.Errorf("refusal = %d %s, want 404 and %s", refused.status, refused.body, instance)
			}
		}
		s.get(t, "/api"+poolPath).expect(t, http.StatusOK)
	}
}

func TestLinksFollowTheBasePath(t *testing.T) {
	s := startChain(t, proxy.Options{Mounts: []proxy.Mount{{Path: "/a/b"}}})
	if got := s.get(t, "/a/b/openapi.json"); !strings.Contains(got.body, `"url":"/a/b"}]`) {
		t.Errorf("/a/b/openapi.json = %d %.300s, want the server /a/b", got.status, got.body)
	}
	if got := s.get(t, "/a/b/docs"); !strings.Contains(got.body, "curl &#39;"+s.URL+"/a/b"+poolPath+"&#39;") {
		t.Errorf("/a/b/docs = %d, want programs that name %s/a/b", got.status, s.URL)
	}
	for _, target := range []string{"/a/b", "/a/b/", "/a/b?since=0", "/a/b/?x-block-height=7"} {
		at, _ := url.Parse(s.URL + target)
		got := s.unfollowed(t, target)
		if place, err := at.Parse(got.header.Get("Location")); err != nil || got.status != http.StatusFound || place.Path != "/a/b/docs" {
			t.Errorf("%s = %d to %q, want /a/b/docs", target, got.status, got.header.Get("Location"))
		}
	}
	list := "/a/b/staking/validators/" + val5 + "/delegators/" + del1 + "/period_delegations?pagination.limit=2"
	at, _ := url.Parse(s.URL + list)
	for name, target := range map[string]string{"a page": list, "a poll": list + "&since=0"} {
		link, _, _ := strings.Cut(strings.TrimPrefix(s.get(t, target).header.Get("Link"), "<"), ">")
		if next, err := at.Parse(link); err != nil || next.Path != at.Path || next.RawQuery == at.RawQuery {
			t.Errorf("the Link of %s = %q, want another query of the same path", name, link)
		}
	}
}

func TestPathsInsideParametersAreBelowTheMount(t *testing.T) {
	s := startChain(t, proxy.Options{Mounts: bothShapes()})
	for base, want := range map[string]string{"": "documented", "/api": "node"} {
		got := parseBatch(t, s.get(t, base+batchOf(poolPath, "/staking/delegators/"+nobody+"/validators")))
		if got.Answers[0].Path != poolPath || got.Answers[0].Status != http.StatusOK {
			t.Errorf("%s: first answer = %+v, want %s with status 200", want, got.Answers[0], poolPath)
		}
		es := s.stream(t, base+"/live?path="+poolPath)
		expect.Contains(t, es.next(), `"path":"`+poolPath+`"`, "%s: event of %s", want, poolPath)
	}
	s.get(t, "/api"+batchOf("/api"+poolPath)).expect(t, http.StatusBadRequest)
}

func TestLogsAndExplanationsHaveBasePathsButRulesDoNot(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{Mounts: bothShapes(), Web: web.Options{Record: record.Options{AccessLog: &log}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Limits: limits.Limits{Access: []limits.Rule{limits.NewDeny("/mint/*")}}}})
	for _, base := range []string{"", "/api"} {
		s.get(t, base+mintPath).expect(t, http.StatusForbidden)
		s.get(t, base+poolPath+"?x-block-height=200").expect(t, http.StatusOK)
		for range 2 { // by the handler and by the fast lane
			s.get(t, base+paramsPath)
		}
		expect.Eventually(t, "log lines with the base path", func() bool {
			return strings.Count(log.String(), `"path":"`+base+poolPath+`"`) == 1 && strings.Count(log.String(), `"path":"`+base+paramsPath+`"`) == 2
		})
		prefix := map[string]string{"": "documented/", "/api": "node/"}[base]
		if e := explain(t, s.proxy, proxy.Inquiry{URL: base + poolPath}); !strings.HasPrefix(e.Key, prefix) || e.Request != "GET "+base+poolPath {
			t.Errorf("explanation of %s%s = %+v, want a key that begins with %s", base, poolPath, e, prefix)
		}
	}
	all, err := s.proxy.SelectRoute("pool")
	keys := map[string]bool{}
	for _, sel := range all {
		keys[sel.Path] = true
	}
	if err != nil || !keys["documented"+poolPath] || !keys["node"+poolPath] {
		t.Errorf("SelectRoute(pool) = %+v, %v; want the keys of both shapes", all, err)
	}
}

func TestBothShapesReadTheNodeOncePerBlock(t *testing.T) {
	d, nodes := simulate(t, node.Story, devnet.Options{}, nodeTimeout)
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: nodes}, Mounts: bothShapes()}))(t)
	s := &chainService{Server: startServer(t, p, nil)}
	for block := range int64(3) {
		height := strconv.FormatInt(d.Height(), 10)
		expect.NoError(t, nodes.WaitHeight(t.Context(), d.Height()))
		var clients sync.WaitGroup
		for _, base := range []string{"", "/api", "/api", ""} {
			clients.Go(func() {
				if got := s.get(t, base+poolPath, "X-Min-Block-Height", height); got.status != http.StatusOK || got.header.Get("X-Block-Height") != height {
					t.Errorf("%s%s = %d %s, want 200 at block %s", base, poolPath, got.status, got.body, height)
				}
			})
			if base == "" {
				clients.Wait() // the first request is alone, the others are concurrent
			}
		}
		clients.Wait()
		if got := d.Stats().Node.Of(poolPath); got != block+1 {
			t.Errorf("node reads of %d blocks = %d, want one per block", block+1, got)
		}
		d.Advance(1)
	}
}
