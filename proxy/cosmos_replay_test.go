package proxy_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// sdkService is a server in front of a simulated SDK chain whose blocks the test creates.
type sdkService struct {
	*devnet.Devnet
	metrics *prometheus.Registry
	pool    *node.Pool
	proxy   *proxy.Server
	server  *httptest.Server
}

// nodeTimeout is a timeout of node requests that no test exceeds.
const nodeTimeout = 20 * time.Second

// simulate runs a simulated chain whose blocks the test creates, and a pool that follows it.
func simulate(t *testing.T, dialect node.Dialect, o devnet.Options, timeout time.Duration) (*devnet.Devnet, *node.Pool) {
	t.Helper()
	o.Dialect, o.Interval = devnet.Dialect(dialect), -1
	d := devnettest.Start(t, o)
	pool := expect.Value(node.New(node.Options{
		Settings: node.Settings{Timeout: timeout},
		Dialect:  dialect, Endpoints: []node.Endpoint{{REST: d.NodeURL(), Comet: d.CometURL()}}, BlockInterval: time.Minute,
	}))(t)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(context.Background()) }()
	t.Cleanup(func() { _ = pool.Close(); <-ended })
	return d, pool
}

// newSDK starts an sdkService. change may change the options of the server; nil changes nothing.
func newSDK(t *testing.T, d devnet.Options, change func(*proxy.Options)) *sdkService {
	t.Helper()
	s := &sdkService{metrics: prometheus.NewRegistry()}
	s.Devnet, s.pool = simulate(t, node.Cosmos, d, nodeTimeout)
	o := sdkOptions(t, s.pool, s.metrics)
	if change != nil {
		change(&o)
	}
	s.proxy = expect.Value(proxy.New(o))(t)
	s.server = httptest.NewServer(s.proxy)
	t.Cleanup(s.server.Close)
	expect.NoError(t, s.pool.WaitHeight(t.Context(), s.Height()))
	return s
}

// sdkOptions returns the options of a server in front of SDK nodes.
func sdkOptions(t *testing.T, pool *node.Pool, metrics *prometheus.Registry) proxy.Options {
	t.Helper()
	return proxy.Options{
		Cache: newCache(t, nil), Chain: blocks.Options{Nodes: pool}, Dialect: node.Cosmos, Posts: blocks.Posts{Rate: 1000, Burst: 1000},
		Web: web.Options{Registerer: metrics},
	}
}

// recordedRequest is a recorded request, or one of the same form.
type recordedRequest struct{ nodetest.Exchange }

// send sends the request byte for byte to a node or server.
func (x recordedRequest) send(t *testing.T, base string) exchange {
	t.Helper()
	target := expect.Value(url.Parse(base))(t)
	target.Opaque, target.RawQuery = x.Path, x.Query
	r := expect.Value(http.NewRequestWithContext(t.Context(), x.Method, base, strings.NewReader(x.Body)))(t)
	r.URL = target
	for _, h := range x.Headers {
		r.Header.Add(h[0], h[1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", x.Name, err)
	}
	defer resp.Body.Close()
	body := expect.Value(io.ReadAll(resp.Body))(t)
	return exchange{x.Method + " " + x.Path, resp.StatusCode, resp.Header, string(body)}
}

// deviations lists the recordings that the server answers with another status, and why.
var deviations = map[string]struct {
	status int
	why    string
}{
	"hdr_grpc_timeout":                   {200, "client headers are not passed on"},
	"hdr_gzip":                           {200, "the response is compressed"},
	"pruned_gov_h50":                     {500, "the error names the blocks that the node has"},
	"pruned_pool_one":                    {500, "the error names the blocks that the node has"},
	"hdr_options_preflight":              {204, "preflights are answered"},
	"path_metrics":                       {403, "the metrics of nodes are denied"},
	"method_HEAD_params":                 {200, "HEAD is supported"},
	"method_POST_form_on_get_route":      {501, "forms are not passed on"},
	"method_override":                    {501, "forms are not passed on"},
	"pin_reflection_garbage":             {500, "malformed heights are refused on every path"},
	"height_pool_twice_same":             {400, "the node would silently read the latest block"},
	"height_pool_twice_differ":           {400, "the node would silently read the latest block"},
	"height_pool_storyname_future":       {500, "X-Block-Height is read here"},
	"height_pool_storyname_negative":     {400, "X-Block-Height is read here"},
	"height_pool_storyname_next":         {500, "X-Block-Height is read here"},
	"height_pool_storyname_past_10":      {200, "X-Block-Height is read here"},
	"height_pool_storyname_zero":         {400, "X-Block-Height is read here"},
	"pin_block_100_future":               {200, "what CometBFT answers is not pinned"},
	"pin_block_latest_future":            {200, "what CometBFT answers is not pinned"},
	"pin_block_latest_past":              {200, "the height that is told is the answer's"},
	"pin_tx_past":                        {200, "the height that is told is the answer's"},
	"pin_tx_block_past":                  {200, "the height that is told is the answer's"},
	"pin_tx_block_future":                {200, "what CometBFT answers is not pinned"},
	"pin_tx_search_past":                 {200, "the height that is told is the answer's"},
	"pruned_block_50_pinned_h50":         {200, "what CometBFT answers is not pinned"},
	"pruned_tx_pinned_h50":               {200, "what CometBFT answers is not pinned"},
	"pruned_validatorset_50_pinned_h50":  {200, "what CometBFT answers is not pinned"},
	"restart_block_latest":               {200, "a restart is not noticed"},
	"restart_node_info":                  {200, "a restart is not noticed"},
	"restart_pool_latest":                {200, "a restart is not noticed"},
	"restart_tx":                         {200, "a restart is not noticed"},
	"wasm_smart_encoded_slash_in_base64": {500, "the query reaches the contract, which does not know it"},
	"wasm_smart_plain_slash_in_base64":   {500, "the query reaches the contract, which does not know it"},
	"nogrpc_pool_negative":               {500, "invalid heights are refused"},
	"cors_preflight_get":                 {204, "preflights are answered"},
	"cors_preflight_content_type":        {204, "preflights are answered"},
	"cors_preflight_height":              {204, "pages may send the height"},
	"cors_options_plain":                 {501, "the request is not a preflight"},
	"post_broadcast_same_again":          {200, "the simulated chain has not seen the transaction before"},
	"pruned_txs_block_18":                {200, "the recorded chain had other transactions in the block"},
}

func TestSDKRequestsAreAnsweredAsRecorded(t *testing.T) {
	t.Parallel()
	services := map[string]*sdkService{
		"cors":      newSDK(t, devnet.Options{StartHeight: 338}, nil),
		"nogrpc":    newSDK(t, devnet.Options{StartHeight: 572, NoGRPC: true}, nil),
		"pruned":    newSDK(t, devnet.Options{StartHeight: 217, KeepRecent: 17}, nil),
		"restart":   newSDK(t, devnet.Options{StartHeight: 869}, nil),
		"broadcast": newSDK(t, devnet.Options{StartHeight: 870}, nil),
		"":          newSDK(t, devnet.Options{StartHeight: 870}, nil),
	}
	services["restart"].Node().Restart()
	for _, e := range nodetest.Exchanges(t, "../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		x := recordedRequest{e}
		if strings.HasPrefix(x.Name, "rpc_") {
			continue // CometBFT answers it
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(x.Name, "post_"), "_")
		s := services[kind]
		if s == nil {
			s = services[""]
		}
		t.Run(x.Name, func(t *testing.T) { x.check(t, s) })
	}
}

// check compares the response with the recording. A body with status 200 is compared with the simulated node's.
func (x recordedRequest) check(t *testing.T, s *sdkService) {
	t.Helper()
	got := x.send(t, s.server.URL)
	expectNoFault(t, s.metrics)
	if want, ok := deviations[x.Name]; ok {
		if got.status != want.status {
			t.Errorf("status = %d %s, want %d, because %s", got.status, got.body, want.status, want.why)
		}
		return
	}
	if got.status != x.Status {
		t.Fatalf("status = %d %s, want %d %s", got.status, got.body, x.Status, x.Raw)
	}
	for _, name := range []string{"Content-Type", "X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "Grpc-Metadata-Content-Type", "Location"} {
		got.expectHeader(t, name, x.Answer[name])
	}
	got.expectHeader(t, "X-Server-Time", "")
	if x.Method == http.MethodHead || strings.Contains(x.Name, "broadcast") {
		return
	}
	want := x.Raw
	if x.Status == http.StatusOK {
		want = x.send(t, s.NodeURL()).body
	}
	expect.NoDiff(t, got.body, want, "body")
}

// expectNoFault fails the test if a request counts as a failure of the server.
func expectNoFault(t *testing.T, metrics *prometheus.Registry) {
	t.Helper()
	if failed := expect.Metric(t, metrics, "tipcache_proxy_requests_total", "server"); failed > 0 {
		t.Errorf("%g requests count as failures of the server, want none", failed)
	}
}

// The recordings are from Cosmos SDK 0.53.4 at block 746. The REST server of those whose names begin with nogrpc does not use gRPC.
func TestRecordedRefusalsAreReadFromOneNode(t *testing.T) {
	t.Parallel()
	withGRPC, without := newRefusing(t, true), newRefusing(t, false)
	for _, x := range nodetest.Exchanges(t, "testdata/refusals.jsonl") {
		s := withGRPC
		if strings.HasPrefix(x.Name, "nogrpc_") {
			s = without
		}
		t.Run(x.Name, func(t *testing.T) {
			s.requests.Store(0)
			got := recordedRequest{x}.send(t, s.server.URL)
			expect.Equal(t, got.status, x.Status, "status")
			expect.NoDiff(t, got.body, x.Raw, "body")
			want := int64(1)
			if x.Name == "tx_absent" { // another node may have kept or indexed it
				want = 2
			}
			expect.Equal(t, s.requests.Load(), want, "requests to nodes")
			expectNoFault(t, s.metrics)
			for _, h := range s.pool.Health() {
				expect.Equal(t, h.LastError, "", "last error of %s", h.Name)
			}
		})
	}
}

// refusing is a server in front of two nodes that refuse requests as recorded.
type refusing struct {
	server   *httptest.Server
	pool     *node.Pool
	metrics  *prometheus.Registry
	requests atomic.Int64 // to both nodes, without those of the pool
}

func newRefusing(t *testing.T, usesGRPC bool) *refusing {
	t.Helper()
	s := &refusing{metrics: prometheus.NewRegistry()}
	byTarget, probe := map[string]nodetest.Exchange{}, nodetest.REST(t, 746)
	for _, x := range nodetest.Exchanges(t, "testdata/refusals.jsonl") {
		if usesGRPC != strings.HasPrefix(x.Name, "nogrpc_") {
			byTarget[x.Method+x.Path+"?"+parsedQuery(x.Query)+x.Body] = x
		}
	}
	recorded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		x, known := byTarget[r.Method+r.URL.EscapedPath()+"?"+parsedQuery(r.URL.RawQuery)+string(body)]
		switch {
		case known:
			s.requests.Add(1)
			for name, value := range x.Answer {
				w.Header().Set(name, value)
			}
			w.WriteHeader(x.Status)
			_, _ = io.WriteString(w, x.Raw)
		case usesGRPC:
			probe.Config.Handler.ServeHTTP(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Grpc-Metadata-X-Cosmos-Block-Height", cmp.Or(r.Header.Get("X-Cosmos-Block-Height"), "746"))
			_, _ = io.WriteString(w, `{"params":{}}`)
		}
	}))
	t.Cleanup(recorded.Close)
	s.pool = nodetest.Run(t, node.Options{Endpoints: []node.Endpoint{{REST: recorded.URL}, {REST: recorded.URL}}}, 746)
	s.server = httptest.NewServer(expect.Value(proxy.New(sdkOptions(t, s.pool, s.metrics)))(t))
	t.Cleanup(s.server.Close)
	return s
}

// parsedQuery returns a query in canonical form.
func parsedQuery(query string) string {
	values, _ := url.ParseQuery(query)
	return values.Encode()
}
