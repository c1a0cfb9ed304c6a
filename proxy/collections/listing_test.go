package collections

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	store "github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

// fakeStore is a store, its watch and a metadata provider. The store has one collection.
type fakeStore struct {
	mark      *store.Mark
	next      *store.Mark // replaces mark when a request waits for a block
	total     int64
	queries   []store.Query
	described json.RawMessage
	degraded  bool
	err       error
	delay     time.Duration // of List
	page      *store.Mark   // state that pages are from; nil means mark
}

func (s *fakeStore) Mark() *store.Mark { return s.mark }
func (s *fakeStore) Await(ctx context.Context, block int64) error {
	isCounted := func() bool { return s.mark != nil && s.mark.Cursor.Block >= block }
	if !isCounted() && s.next != nil {
		s.mark = s.next
	}
	if isCounted() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}
func (s *fakeStore) List(_ context.Context, q store.Query) (store.Page, error) {
	time.Sleep(s.delay)
	s.queries = append(s.queries, q)
	items := []store.Collection{{Address: "0xAb00000000000000000000000000000000000000", AssetCount: 7, Metadata: json.RawMessage(`{"own":1}`)}}
	page := store.Page{Items: items[:min(1, s.total)], Total: s.total}
	if at := cmp.Or(s.page, s.mark); at != nil {
		page.Generation, page.Revision, page.Block = at.Generation, at.Revision, at.Cursor.Block
	}
	return page, s.err
}
func (s *fakeStore) Lookup(context.Context, []string) (map[string]json.RawMessage, bool) {
	return map[string]json.RawMessage{"0xab00000000000000000000000000000000000000": s.described}, s.degraded
}

// markOf returns the mark of a store whose content depends on generation and block.
func markOf(id string, generation, block int64) *store.Mark {
	return &store.Mark{
		Store: id, Generation: generation, Revision: fmt.Sprint(id, generation, block), Total: 1,
		Cursor: ledger.Cursor{Chain: 1, Block: block, Time: time.Now()},
	}
}

// newLister returns a function that sends requests to a handler.
func newLister(t *testing.T, o Options, inCache ...func(*cache.Options)) func(method, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	var ofCache cache.Options
	for _, set := range inCache {
		set(&ofCache)
	}
	c := expect.Value(cache.New(ofCache))(t)
	t.Cleanup(func() { _ = c.Close() })
	return newListerOf(t, o, c)
}

// newListerOf is newLister with a cache.
func newListerOf(t *testing.T, o Options, c *cache.Cache) func(method, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	stack := web.New(web.Options{}, c)
	h := New(o, stack, c)
	handler := stack.NewEngine(nil, func(r *web.Request) web.Route {
		for _, rt := range h.Routes() {
			if rt.Pattern == r.URL.Path {
				return rt
			}
		}
		return web.Route{Render: h.RenderProblem, Serve: func(*web.Request) error { return errClosed }}
	}).Handler()
	return func(method, body string, headers ...string) *httptest.ResponseRecorder {
		path := Path
		if method == http.MethodGet {
			path, body = Prefix+body, ""
		}
		r, w := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		handler.ServeHTTP(w, r)
		return w
	}
}

func TestInvalidRequestIsAnsweredWithProblem(t *testing.T) {
	s := &fakeStore{total: 1}
	ask := newLister(t, Options{Store: s, NoAuth: true})
	var many strings.Builder
	for i := range 201 {
		fmt.Fprintf(&many, `%c"p%d":1`, ",{"[max(0, 1-i)], i)
	}
	for _, tt := range []struct {
		method, body string
		headers      []string
		status       int
		want         string
	}{
		{"POST", ` {} `, nil, 200, `"limit":20`},
		{"QUERY", `{}`, []string{"Content-Type", "application/json"}, 200, `"limit":20`},
		{"QUERY", `{}`, nil, 400, "a QUERY request needs a Content-Type"},
		{"POST", `{}`, []string{"Content-Type", "text/plain"}, 415, "must be application/json"},
		{"POST", `{}`, []string{"Content-Type", "application/x+json; charset"}, 200, ""},
		{"POST", `{}`, []string{"Content-Encoding", "gzip"}, 415, "must not be compressed"},
		{"POST", `{}`, []string{"Content-Encoding", "Identity"}, 200, ""},
		{"POST", ``, nil, 400, "request body is required"},
		{"POST", `{`, nil, 400, "request body is malformed"},
		{"POST", `{}x`, nil, 400, "after top-level value"},
		{"POST", `{"pagination":{"limit":NaN}}`, nil, 400, "invalid character 'N'"},
		{"POST", many.String() + "}", nil, 400, "an object has more than 200 properties"},
		{"POST", "{\"\xff\":1}", nil, 400, "invalid UTF-8"},
		{"POST", `{"orderBy":"assetCount","ORDERBY":"assetCount"}`, nil, 400, "duplicate property ORDERBY"},
		{"POST", "\xef\xbb\xbf{}", nil, 400, "byte order mark"},
		{"POST", `{"a":1,"pagination":{"limit":201,"offset":-1}}`, nil, 422, `"errors":[{"message":"expected number <= 200","location":"body.pagination.limit","value":201},{"message":"expected number >= 0","location":"body.pagination.offset","value":-1},{"message":"unexpected property","location":"body.a","value":1}]`},
		{"POST", `{"pagination":{"limit":1.5}}`, nil, 422, "expected integer"},
		{"POST", `{"pagination":{"offset":9223372036854775808}}`, nil, 422, "expected integer"},
		{"POST", `{"pagination":{"limit":0}}`, nil, 422, "expected number >= 1"},
		{"POST", `{"pagination":null,"$schema":7}`, nil, 200, ""},
		{"POST", `{"where":{"collectionAddresses":[` + strings.Repeat(`"0x",`, 200) + `"0x"]}}`, nil, 422, "expected array length <= 200"},
		{"POST", `{"where":{"collectionAddresses":[` + strings.Repeat(`"0x",`, 199) + `"0x"]}}`, nil, 200, `"total":0,"hasMore":false`},
		{"POST", `{"x":"` + strings.Repeat("x", 65) + `"}`, nil, 422, `"value":"\"` + strings.Repeat("x", 60) + `…"`},
		{"POST", `{"orderBy":"` + strings.Repeat("é", 65) + `"}`, nil, 422, `"value":"` + strings.Repeat("é", 30) + `…"`},
		{"POST", strings.Repeat(" ", maxListBody+1), nil, 413, "too large limit=1048576 bytes"},
		{"POST", `{}`, []string{"X-Min-Evm-Block", "x"}, 400, "expected a positive integer"},
		{"POST", `{}`, []string{"X-Min-Evm-Block", "7"}, 400, "no indexer fills this store"},
	} {
		for range 2 { // also from memory
			w := ask(tt.method, tt.body, tt.headers...)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s %.60s: response = %d %s, want %d with %s", tt.method, tt.body, w.Code, w.Body, tt.status, tt.want)
			}
			schema := map[bool]string{true: "CollectionPage", false: "Problem"}[w.Code == 200]
			expect.Equal(t, w.Header().Get("Link"), `</api/v4/`+schema+`.json>; rel="describedBy"`, "Link of %s %.60s", tt.method, tt.body)
			expect.Contains(t, w.Body.String(), `"$schema":"http://example.com/api/v4/`+schema+`.json"`, "body of %s %.60s", tt.method, tt.body)
		}
	}
	for _, tt := range []struct{ method, name, value, header, want string }{
		{"QUERY", "Content-Type", "", "Accept-Query", "application/json"},
		{"POST", "Content-Type", "text/plain", "Accept", "application/json"},
		{"POST", "Content-Encoding", "gzip", "Accept-Encoding", "identity"},
	} {
		expect.Equal(t, ask(tt.method, "{}", tt.name, tt.value).Header().Get(tt.header), tt.want, "%s with %s %q: %s", tt.method, tt.name, tt.value, tt.header)
	}
	if w := ask("GET", "CollectionQuery.json"); w.Code != 200 || !json.Valid(w.Body.Bytes()) || w.Header().Get("Etag") == "" || w.Header().Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("schema = %d %s with headers %v, want 200 and JSON, an ETag and public, max-age=3600", w.Code, w.Body, w.Header())
	}
	expect.Equal(t, newLister(t, Options{NoAuth: true})("POST", "{}").Code, http.StatusForbidden, "status without a store")
	expect.Equal(t, newLister(t, Options{Store: s})("POST", "{}").Code, http.StatusUnauthorized, "status without a key")
}

func TestPageIsPrivateAndReportsProgress(t *testing.T) {
	s := &fakeStore{total: 1, mark: &store.Mark{Generation: 5, Total: 1, Cursor: ledger.Cursor{Chain: 1, Block: 700, Time: time.Now().Add(-time.Minute)}}}
	ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
	for range 2 { // a miss and a hit
		header := ask("POST", "{}").Header()
		expect.Equal(t, header.Get("Cache-Control"), "private, no-cache", "Cache-Control")
		expect.Contains(t, header.Get("Cache-Status"), "behind=1m", "Cache-Status")
		expect.Equal(t, header.Get("X-Evm-Block"), "700", "X-Evm-Block")
	}
}

func TestEquivalentBodiesShareOneKey(t *testing.T) {
	s := &fakeStore{total: 45}
	ask := newLister(t, Options{Store: s, NoAuth: true})
	for i, body := range []string{
		`{"orderBy":"licensesCount","orderDirection":"asc","pagination":{"limit":5,"offset":44},"where":{"minAssetCount":1,"maxAssetCount":9}}`,
		`{"where":{"maxAssetCount":9,"minAssetCount":1},"pagination":{"offset":44,"limit":5},"orderdirection":"asc","ORDERBY":"licensesCount"}`,
		`{"where":{"maxAssetCount":0,"minAssetCount":1}}`,
	} {
		w := ask("POST", body)
		if more := strings.Contains(w.Body.String(), `"hasMore":true`); w.Code != 200 || len(s.queries) != 1 || more {
			t.Errorf("listing %d = %d %s after %d queries of the store, want 200 without more pages after 1", i, w.Code, w.Body, len(s.queries))
		}
	}
	low, high := int64(1), int64(9)
	expect.NoDiff(t, s.queries[0], store.Query{OrderBy: store.LicensesCount, Limit: 5, Offset: 44, MinAssets: &low, MaxAssets: &high}, "query")
	expect.Contains(t, ask("POST", `{"pagination":{"offset":43}}`).Body.String(), `"hasMore":true`, "page before the last")
}

func TestKeyContainsAllParametersOfListing(t *testing.T) {
	keys := map[string]bool{}
	for _, addresses := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"a", "c"}} {
		l := listRequest{}
		for _, digit := range addresses {
			l.Where.Addresses = append(l.Where.Addresses, "0x"+strings.Repeat(digit, 40))
		}
		keys[l.listing().Key] = true
	}
	if len(keys) != 4 {
		t.Errorf("keys of four lists of addresses = %v, want four", keys)
	}
	low, high := int64(1), int64(9)
	l := listRequest{ListRequest: store.ListRequest{
		OrderBy: "assetCount", OrderDirection: "desc", Pagination: store.ListWindow{Limit: 5},
		Where: store.ListFilters{MinAssets: &low, MaxAssets: &high, Addresses: []string{"0xab00000000000000000000000000000000000000"}},
	}}.listing()
	expect.Equal(t, l.Key, "collections/1/true/5/0/1/9/0xab00000000000000000000000000000000000000", "key")
	expect.Equal(t, l.String(), "5 collections from 0 on by assetCount, greatest first, where {\"collectionAddresses\":[\"0xab00000000000000000000000000000000000000\"],\"maxAssetCount\":9,\"minAssetCount\":1}", "description")
}

func TestMetadataOfProviderReplacesThatOfStore(t *testing.T) {
	for described, want := range map[string]string{`{"a":1}`: `{"a":1}`, `{}`: `{"own":1}`, ``: `{"own":1}`, `[1,2]`: `{"own":1}`, `{"a"}`: `{"own":1}`} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStore{total: 1, described: json.RawMessage(described), degraded: true}
			o := Options{Store: s, Metadata: s, NoAuth: true, Policy: cache.Policy{Fresh: time.Hour, Stale: time.Hour, Keep: time.Hour}}
			ask := newLister(t, o)
			expect.Contains(t, ask("POST", "{}").Body.String(), `"collectionMetadata":`+want, "page with metadata %s", described)
			time.Sleep(5*time.Second - 1)
			ask("POST", "{}")
			expect.Equal(t, len(s.queries), 1, "reads of a degraded page within 5s")
			s.degraded = false
			time.Sleep(time.Second)
			ask("POST", "{}")
			time.Sleep(time.Minute)
			ask("POST", "{}")
			expect.Equal(t, len(s.queries), 2, "reads of a page within a minute")
		})
	}
}

func TestPageIsReadAgainWhenItsStoreChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mark := func(generation, block int64) *store.Mark {
			return markOf("a", generation, block)
		}
		s := &fakeStore{total: 1, mark: mark(5, 50)}
		ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
		check := func(when string, w *httptest.ResponseRecorder, status, reads int, block string) {
			t.Helper()
			if w.Code != status || len(s.queries) != reads || w.Header().Get("X-Evm-Block") != block {
				t.Errorf("%s: status %d with block %s after %d reads, want %d with %s after %d", when, w.Code, w.Header().Get("X-Evm-Block"), len(s.queries), status, block, reads)
			}
		}
		check("at first", ask("POST", "{}"), 200, 1, "50")
		check("without a change", ask("POST", "{}"), 200, 1, "50")
		s.mark, s.total = mark(6, 60), 2
		changed := ask("POST", "{}")
		check("after a change", changed, 200, 2, "60")
		expect.Contains(t, changed.Body.String(), `"total":2`, "page after a change")
		check("at a counted block", ask("POST", "{}", "X-Min-Evm-Block", "60"), 200, 2, "60")
		w := ask("POST", "{}", "X-Min-Evm-Block", "61")
		check("at a block that does not arrive", w, 504, 2, "")
		expect.Contains(t, w.Body.String(), "block 61 has not been counted; the last one is 60", "problem")
		expect.Equal(t, w.Header().Get("Retry-After"), "1", "Retry-After")
		s.mark, s.err = mark(7, 70), errors.New("gone")
		check("while the store fails", ask("POST", "{}"), 200, 3, "60")
		check("while the store fails, at a block of the page", ask("POST", "{}", "X-Min-Evm-Block", "60"), 200, 3, "60")
		if w := ask("POST", "{}", "X-Min-Evm-Block", "65"); w.Code == 200 {
			t.Errorf("while the store fails, at a later block: status = %d, want an error", w.Code)
		}
	})
}

// An alert on slow requests must not fire because clients wait for blocks.
func TestDurationExcludesTheWaitForABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := expect.Value(cache.New(cache.Options{}))(t)
		defer c.Close()
		s := &fakeStore{mark: &store.Mark{Generation: 5, Cursor: ledger.Cursor{Chain: 1, Block: 50, Time: time.Now()}}}
		h := New(Options{Store: s, Watch: s, NoAuth: true}, web.New(web.Options{}, c), c)
		var rec record.Record
		if _, err := h.awaited(t.Context(), &rec, 51); err == nil {
			t.Error("error for a block that does not arrive = nil, want one")
		}
		expect.Equal(t, rec.Waited, limits.DefaultWait, "recorded wait")
	})
}

func TestPageBelowRequestedBlockIsNeverServed(t *testing.T) {
	unreachable := &upstream.Error{Kind: upstream.Unreachable, Msg: "the collection store cannot be reached"}
	for name, tt := range map[string]struct {
		change func(s *fakeStore)
		status int
	}{
		"the store fails":         {func(s *fakeStore) { s.err = unreachable }, http.StatusBadGateway},
		"the store is overloaded": {func(s *fakeStore) { s.err = store.Busy(unreachable) }, http.StatusServiceUnavailable},
		"the store is slow":       {func(s *fakeStore) { s.delay = time.Hour }, http.StatusGatewayTimeout},
		"a standby database lags": {func(s *fakeStore) { s.page = markOf("a", 5, 50) }, http.StatusServiceUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			mark := func(generation int64) *store.Mark {
				return markOf("a", generation, 10*generation)
			}
			s := &fakeStore{total: 1, mark: mark(5)}
			policy := cache.Policy{Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}
			ask := newLister(t, Options{Store: s, Watch: s, Filled: true, NoAuth: true, Policy: policy})
			check := func(least string, status int, block string) {
				t.Helper()
				w := ask("POST", "{}", "X-Min-Evm-Block", least)
				if w.Code != status || w.Header().Get("X-Evm-Block") != block {
					t.Errorf("%s: response at block %q or later = %d at block %q, want %d at %q", name, least, w.Code, w.Header().Get("X-Evm-Block"), status, block)
				}
			}
			check("", http.StatusOK, "50")
			s.mark = mark(6)
			tt.change(s)
			for range 3 {
				check("60", tt.status, "")
			}
			check("", http.StatusOK, "50")
			check("50", http.StatusOK, "50") // the page has counted it
		})
	}
}

func TestPageOfReplacedStoreIsReadAgain(t *testing.T) {
	s := &fakeStore{total: 1, mark: markOf("a", 5, 50)}
	ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
	ask("POST", "{}")
	s.total, s.mark = 2, markOf("b", 5, 50)
	expect.Contains(t, ask("POST", "{}").Body.String(), `"total":2`, "page of the new store")
}

// Two replicas share a Redis, and one of them restarts after the failover.
func TestPageOfLostTransactionsIsReadAgain(t *testing.T) {
	server := miniredis.RunT(t)
	replica := func(s *fakeStore) func(method, body string, headers ...string) *httptest.ResponseRecorder {
		client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		c := expect.Value(cache.New(cache.Options{Shared: expect.Value(redis.New(client, redis.Options{}))(t)}))(t)
		t.Cleanup(func() { _ = c.Close() })
		c.SetNamespace("chain")
		return newListerOf(t, Options{Store: s, Watch: s, NoAuth: true}, c)
	}
	s := &fakeStore{total: 1, mark: markOf("a", 100, 700)}
	running := replica(s)
	check := func(ask func(method, body string, headers ...string) *httptest.ResponseRecorder, when, total, block string) {
		t.Helper()
		w := ask("POST", "{}")
		if !strings.Contains(w.Body.String(), `"total":`+total) || w.Header().Get("X-Evm-Block") != block {
			t.Errorf("page %s = %s at block %s, want total %s at block %s", when, w.Body, w.Header().Get("X-Evm-Block"), total, block)
		}
	}
	check(running, "before the failover", "1", "700")
	time.Sleep(maxLag)
	s.total, s.mark = 2, markOf("a", 94, 694)
	restarted := replica(s)
	check(restarted, "after the failover, of a new replica", "2", "694")
	check(running, "after the failover", "2", "694")
	s.total, s.mark = 3, markOf("a", 100, 699)
	check(running, "of the same generation", "3", "699")
	s.mark = markOf("a", 100, 701)
	s.mark.Revision = markOf("a", 100, 699).Revision
	reads := len(s.queries)
	check(running, "after a block without events", "3", "701")
	check(replica(s), "of another replica", "3", "701")
	expect.Equal(t, len(s.queries), reads, "reads of the store")
}

func TestPageNamesBlockOfItsOwnState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{total: 1, mark: markOf("a", 5, 50), page: markOf("a", 6, 60)} // the mark is not known yet
		ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
		for range 3 {
			expect.Equal(t, ask("POST", "{}").Header().Get("X-Evm-Block"), "60", "X-Evm-Block")
		}
		expect.Equal(t, len(s.queries), 1, "reads of the store")
		s.mark = markOf("a", 6, 60)
		expect.Equal(t, ask("POST", "{}").Header().Get("X-Evm-Block"), "60", "X-Evm-Block when the mark is known")
		expect.Equal(t, len(s.queries), 1, "reads of the store")
	})
}

func TestPagesOfUnknownStoreAreNotShared(t *testing.T) {
	h := &Handler{o: Options{}.WithDefaults()}
	l := defaultRequest().listing()
	unknown, known := h.query(l.in(""), progress{}), h.query(l.in("https://h/api/v4"), progress{Store: "https://h/api/v4"})
	if unknown.Policy.Keep != 0 || known.Policy.Keep == 0 || !strings.HasSuffix(known.Key, "/https://h/api/v4") || !strings.HasPrefix(known.Key, unknown.Key) {
		t.Errorf("queries of an unknown and a known store = %+v, %+v", unknown, known)
	}
}

func TestOutdatedPageOfReplicaWhoseClockIsAheadIsReadAgain(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	s := &fakeStore{total: 2, mark: markOf("a", 6, 60)}
	ask := newListerOf(t, Options{Store: s, Watch: s, NoAuth: true}, c)
	ahead := time.Now().Add(10 * time.Minute)
	minutes := ahead.Unix() / 60
	page := func(generation int64) *cache.Entry {
		body := fmt.Appendf(nil, "%d %d %s\n{\"total\":1}", generation, 10*generation, markOf("a", generation, 10*generation).Revision)
		return &cache.Entry{Content: cache.NewContent(http.StatusOK, "application/json", "", body, 1), Height: generation + minutes, ReadAt: ahead}
	}
	key := defaultRequest().listing().in("a").Key
	c.Save(t.Context(), map[string]*cache.Entry{key: page(6)}, 0)
	expect.Contains(t, ask("POST", "{}").Body.String(), `"total":1`, "page of the store's generation")
	c.Save(t.Context(), map[string]*cache.Entry{key: page(5)}, 0)
	s.err = errors.New("gone")
	w := ask("POST", "{}")
	expect.Contains(t, w.Body.String(), `"total":1`, "outdated page while the store fails")
	expect.Contains(t, w.Header().Get("Cache-Status"), "stale-if-error", "Cache-Status of an outdated page while the store fails")
	s.err, s.queries = nil, nil
	for range 2 {
		expect.Contains(t, ask("POST", "{}", "X-Min-Evm-Block", "60").Body.String(), `"total":2`, "page after the store has changed")
	}
	expect.Equal(t, len(s.queries), 1, "reads of the store")
}

func TestRequestWaitsForRequiredBlock(t *testing.T) {
	mark := func(block int64) *store.Mark {
		return markOf("a", block/10, block)
	}
	s := &fakeStore{total: 1, mark: mark(50), next: mark(60)}
	ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
	if w := ask("POST", "{}", "X-Min-Evm-Block", "55"); w.Code != 200 || w.Header().Get("X-Evm-Block") != "60" {
		t.Errorf("response after the block arrived = %d at %s, want 200 at 60", w.Code, w.Header().Get("X-Evm-Block"))
	}
	imported := &store.Mark{Generation: 7, Total: 1} // without an indexer
	for name, known := range map[string]*store.Mark{"from the beginning": imported, "later": nil} {
		s.mark, s.next = known, imported
		if w := ask("POST", "{}", "X-Min-Evm-Block", "55"); w.Code != 400 || !strings.Contains(w.Body.String(), "no indexer fills this store") {
			t.Errorf("response of a store known %s to have no indexer = %d %s, want 400", name, w.Code, w.Body)
		}
	}
	s.next = mark(60)
	s.mark = &store.Mark{}
	filling := newLister(t, Options{Store: s, Watch: s, Filled: true, NoAuth: true})
	expect.Equal(t, filling("POST", "{}", "X-Min-Evm-Block", "55").Code, 200, "status after the first blocks were counted")
}

func TestBlockIsAwaitedWhileProgressIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{total: 1}
		ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
		expect.Equal(t, ask("POST", "{}", "X-Min-Evm-Block", "55").Code, http.StatusGatewayTimeout, "status without a mark")
		s.next = &store.Mark{Generation: 7, Total: 1, Cursor: ledger.Cursor{Chain: 1, Block: 60, Time: time.Now()}}
		expect.Equal(t, ask("POST", "{}", "X-Min-Evm-Block", "55").Code, http.StatusOK, "status after the first mark")
	})
}

func TestDegradedPageIsServedWhileTheStoreFails(t *testing.T) {
	for name, mark := range map[string]*store.Mark{"of known generation": {Generation: 5, Total: 1}, "of unknown generation": nil} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStore{total: 1, degraded: true, mark: mark}
			policy := cache.Policy{Fresh: time.Minute, Stale: time.Minute, StaleIfError: time.Hour, Keep: time.Hour}
			ask := newLister(t, Options{Store: s, Watch: s, Metadata: s, NoAuth: true, Policy: policy})
			ask("POST", "{}")
			s.err = errors.New("gone")
			time.Sleep(10 * time.Minute)
			w := ask("POST", "{}")
			expect.Equal(t, w.Code, http.StatusOK, "status of a degraded page %s", name)
			expect.Contains(t, w.Header().Get("Cache-Status"), "stale-if-error", "Cache-Status of a degraded page %s", name)
		})
	}
}

func TestWaitingRequestsOfOneClientAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{total: 1, mark: &store.Mark{Generation: 5, Total: 1, Cursor: ledger.Cursor{Chain: 1, Block: 50}}}
		ask := newLister(t, Options{Store: s, Watch: s, NoAuth: true})
		statuses, got := make(chan int), map[int]int{}
		for range 505 {
			go func() { statuses <- ask("POST", "{}", "X-Min-Evm-Block", "51").Code }()
		}
		for range 505 {
			got[<-statuses]++
		}
		expect.NoDiff(t, got, map[int]int{http.StatusTooManyRequests: 4, http.StatusGatewayTimeout: 501}, "statuses")
	})
}

func TestRequestsOfOneClientLeaveThePlacesOfTheCacheToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{total: 1, delay: time.Second}
		ask := newLister(t, Options{Store: s, NoAuth: true}, func(o *cache.Options) { o.MaxWaiters = 20 })
		statuses, got := make(chan int), map[int]int{}
		for range 15 {
			go func() { statuses <- ask("POST", "{}").Code }()
		}
		for range 15 {
			got[<-statuses]++
		}
		expect.NoDiff(t, got, map[int]int{http.StatusTooManyRequests: 4, http.StatusOK: 11}, "statuses")
	})
}

func TestStoreFilledForTheFirstTimeIsUnavailable(t *testing.T) {
	for _, s := range []*fakeStore{{}, {mark: &store.Mark{}}, {mark: &store.Mark{Total: 1}, total: 1}, {mark: &store.Mark{Cursor: ledger.Cursor{Chain: 1, Time: time.Now()}}}} {
		want := http.StatusServiceUnavailable
		if s.mark != nil && (s.mark.Total > 0 || s.mark.Cursor.Chain > 0) {
			want = http.StatusOK
		}
		ask := newLister(t, Options{Store: s, Watch: s, Filled: true, NoAuth: true})
		expect.Equal(t, ask("POST", "{}").Code, want, "status with mark %+v", s.mark)
	}
}

func TestReadErrorOfBodyIsClassified(t *testing.T) {
	refusal := &failure.Failure{Status: http.StatusServiceUnavailable}
	for err, want := range map[error]int{
		refusal: 503, &http.MaxBytesError{Limit: 7}: 413, os.ErrDeadlineExceeded: 408, errors.New("reset"): 400,
	} {
		expect.Equal(t, failure.Of(unreadable(err)).Status, want, "status of %T", err)
	}
}
