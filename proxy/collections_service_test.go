package proxy_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

const (
	listPath  = "/api/v4/collections"
	testKey   = "correct horse battery staple"
	wow       = "0xe785E82358879F061BC3dcAC6f0444462D4b5330"
	other     = "0x1514000000000000000000000000000000000000"
	requestID = "req-1"
)

// listStore answers queries as answer says, and counts them.
type listStore struct {
	calls  atomic.Int64
	last   atomic.Pointer[collections.Query]
	answer atomic.Pointer[func(ctx context.Context, q collections.Query) (collections.Page, error)]
}

func (s *listStore) List(ctx context.Context, q collections.Query) (collections.Page, error) {
	s.calls.Add(1)
	s.last.Store(&q)
	return (*s.answer.Load())(ctx, q)
}

func (s *listStore) answerWith(f func(ctx context.Context, q collections.Query) (collections.Page, error)) {
	s.answer.Store(&f)
}

func (s *listStore) failWith(err error) {
	s.answerWith(func(context.Context, collections.Query) (collections.Page, error) { return collections.Page{}, err })
}

// setCollections sets the collections of the store. A query may select one of them by its address.
func (s *listStore) setCollections(all ...collections.Collection) {
	s.answerWith(func(_ context.Context, q collections.Query) (collections.Page, error) {
		page := collections.Page{Items: []collections.Collection{}}
		for _, c := range all {
			if len(q.Addresses) == 0 || strings.ToLower(c.Address) == q.Addresses[0] {
				page.Items = append(page.Items, c)
			}
		}
		page.Total = int64(len(page.Items))
		return page, nil
	})
}

func worldOfWomen() collections.Collection {
	return collections.Collection{
		Address: wow, AssetCount: 9007199254740993, LicensesCount: 12,
		RaisedDisputeCount: 4, CancelledDisputeCount: 1, JudgedDisputeCount: 3, ResolvedDisputeCount: 2,
		CreatedAt: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC),
		UpdatedAt: time.Date(2025, 5, 6, 7, 8, 9, 123456000, time.FixedZone("", 3600)),
	}
}

// listService is a proxy with a fake store of collections.
type listService struct {
	*httptest.Server
	proxy *proxy.Server
	store *listStore
}

// keyOf returns an API key for a secret.
func keyOf(name, secret string) limits.Key {
	return limits.Key{Name: name, SHA256: sha256.Sum256([]byte(secret))}
}

// newListProxy returns a proxy whose store has World of Women.
func newListProxy(tb testing.TB, o listing.Options, change ...func(*proxy.Options)) (*proxy.Server, *listStore) {
	tb.Helper()
	store := &listStore{}
	store.setCollections(worldOfWomen())
	o.Store = store
	options := proxy.Options{Cache: newCache(tb, nil), Collections: &o, Web: web.Options{Settings: web.Settings{RequestTimeout: 20 * time.Second}, Keys: []limits.Key{keyOf("tester", testKey)}}, Chain: blocks.Options{Nodes: newFakeChain(tb)}}
	for _, f := range change {
		f(&options)
	}
	return expect.Value(proxy.New(options))(tb), store
}

// startList starts a proxy with a fast lane.
func startList(t *testing.T, o listing.Options, change ...func(*proxy.Options)) *listService {
	t.Helper()
	fast := lane.New(lane.Options{})
	return serveList(t, o, append(change, func(o *proxy.Options) { o.Web.Lane = fast })...)
}

// serveList starts a proxy with the fast lane of the options; nil means none.
func serveList(t testing.TB, o listing.Options, change ...func(*proxy.Options)) *listService {
	t.Helper()
	var fast web.Lane
	change = append([]func(*proxy.Options){func(o *proxy.Options) { o.Web.PublicURL = "https://host" }}, append(change, func(o *proxy.Options) { fast = o.Web.Lane })...)
	p, store := newListProxy(t, o, change...)
	return &listService{Server: startServer(t, p, fast), proxy: p, store: store}
}

// send sends a request with testKey. headers replace the usual headers; an empty value removes a header.
func (s *listService) send(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Key", testKey)
	r.Header.Set("X-Request-Id", requestID)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	res := expect.Value(s.Client().Do(r))(t)
	defer res.Body.Close()
	text := expect.Value(io.ReadAll(res.Body))(t)
	return res, string(text)
}

func (s *listService) post(t *testing.T, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return s.send(t, http.MethodPost, listPath, body, headers...)
}

// compareGolden compares a JSON text with a file, except for whitespace.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "collections", name)
	if *update {
		expect.NoError(t, os.WriteFile(path, []byte(indentJSON(t, got)+"\n"), 0o600))
	}
	want := expect.Value(os.ReadFile(path))(t)
	expect.NoDiff(t, indentJSON(t, got), indentJSON(t, string(want)), "body")
}

func indentJSON(t *testing.T, text string) string {
	t.Helper()
	b, err := json.MarshalIndent(json.RawMessage(text), "", "  ")
	if err != nil {
		t.Fatalf("invalid JSON: %v in %q", err, text)
	}
	return string(b)
}

var errUnreachable = &upstream.Error{Kind: upstream.Unreachable, Msg: "the collection store cannot be reached", Err: errors.New("dial tcp 10.1.2.3:5432: secret")}

const wowMetadata = `{"chain":"story-mainnet","address":"0xe785E82358879F061BC3dcAC6f0444462D4b5330","name":"World <of> Women","symbol":"WOW","totalSupply":"10000","tokenType":"ERC721","contractDeployer":"0xc9b6321dc216D91E626E9BAA61b06B0E4d55bdb1","deployedBlockNumber":12907782,"marketplaceMetadata":{"floorPrice":0.4249989,"collectionName":"World of Women","externalUrl":null}}`

// fakeProvider is a metadata provider that describes the given collections.
type fakeProvider map[string]string

func (d fakeProvider) Lookup(_ context.Context, addresses []string) (map[string]json.RawMessage, bool) {
	found := map[string]json.RawMessage{}
	for _, a := range addresses {
		found[a] = json.RawMessage("{}")
		if known, ok := d[a]; ok {
			found[a] = json.RawMessage(known)
		}
	}
	return found, false
}
