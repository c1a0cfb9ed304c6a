package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// An sdkService is a server before a simulated chain of the SDK that stands still.
type sdkService struct {
	*devnet.Devnet
	pool   *node.Pool
	proxy  *proxy.Server
	server *httptest.Server
}

// simulate runs a simulated chain that stands still, and what follows it.
func simulate(t *testing.T, dialect node.Dialect, o devnet.Options) (*devnet.Devnet, *node.Pool) {
	t.Helper()
	o.Dialect, o.Interval = devnet.Dialect(dialect), -1
	d := devnettest.Start(t, o)
	pool := expect.Value(node.New(node.Options{
		Dialect: dialect, Endpoints: []node.Endpoint{{REST: d.NodeURL(), Comet: d.CometURL()}}, BlockInterval: time.Minute, Timeout: 20 * time.Second,
	}))(t)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(context.Background()) }()
	t.Cleanup(func() { _ = pool.Close(); <-ended })
	return d, pool
}

// newSDK starts one. The options of the server may be changed before.
func newSDK(t *testing.T, d devnet.Options, change func(*proxy.Options)) *sdkService {
	t.Helper()
	s := &sdkService{}
	s.Devnet, s.pool = simulate(t, node.Cosmos, d)
	o := proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: s.pool}, Dialect: node.Cosmos, Posts: blocks.Posts{Rate: 1000, Burst: 1000}}
	if change != nil {
		change(&o)
	}
	var err error
	if s.proxy, err = proxy.New(o); err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(s.proxy)
	t.Cleanup(s.server.Close)
	s.waitTip(t)
	return s
}

func (s *sdkService) waitTip(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !s.pool.Tip().Known || s.pool.Tip().Height < s.Height(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the tip is %+v, want %d", s.pool.Tip(), s.Height())
		}
	}
}

// An sdkExchange is a recorded one, or one like it.
type sdkExchange struct{ nodetest.Exchange }

// send makes the request byte for byte, at the node or at the server.
func (x sdkExchange) send(t *testing.T, base string) (*http.Response, string) {
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
	return resp, string(body)
}

// better are the recordings that the server answers otherwise, with what it answers and why.
var better = map[string]struct {
	status int
	why    string
}{
	"hdr_grpc_timeout":                   {200, "no header of the client's acts on the node"},
	"hdr_gzip":                           {200, "it is encoded"},
	"pruned_gov_h50":                     {500, "known to be gone, and told which blocks are there"},
	"pruned_pool_one":                    {500, "known to be gone, and told which blocks are there"},
	"hdr_options_preflight":              {204, "preflights are answered"},
	"method_HEAD_params":                 {200, "HEAD works"},
	"method_POST_form_on_get_route":      {501, "a form is not sent on"},
	"method_override":                    {501, "a form is not sent on"},
	"height_pool_twice_same":             {400, "the node reads the latest and does not say so"},
	"height_pool_twice_differ":           {400, "the node reads the latest and does not say so"},
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
	"nogrpc_pool_negative":               {500, "garbage heights are refused"},
	"cors_preflight_get":                 {204, "preflights are answered"},
	"cors_preflight_content_type":        {204, "preflights are answered"},
	"cors_preflight_height":              {204, "pages may send the height"},
	"cors_options_plain":                 {501, "it is no preflight"},
	"post_broadcast_same_again":          {200, "nothing was broadcast before it"},
	"pruned_txs_block_18":                {200, "that chain had other transactions in the block"},
}

func TestRecordingsOfTheSDKAreAnsweredAsRecorded(t *testing.T) {
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
		x := sdkExchange{e}
		if strings.HasPrefix(x.Name, "rpc_") {
			continue // those are CometBFT's
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(x.Name, "post_"), "_")
		s := services[kind]
		if s == nil {
			s = services[""]
		}
		t.Run(x.Name, func(t *testing.T) { x.check(t, s) })
	}
}

// check compares with the recording, and a body of state with that of the node itself.
func (x sdkExchange) check(t *testing.T, s *sdkService) {
	resp, body := x.send(t, s.server.URL)
	if want, ok := better[x.Name]; ok {
		if resp.StatusCode != want.status {
			t.Errorf("got %d, want %d: %s\n%s", resp.StatusCode, want.status, want.why, body)
		}
		return
	}
	if resp.StatusCode != x.Status {
		t.Fatalf("got %d, want %d\n%s\n%s", resp.StatusCode, x.Status, body, x.Raw)
	}
	for _, name := range []string{"Content-Type", "X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "Grpc-Metadata-Content-Type", "Location"} {
		expect.NoDiff(t, resp.Header.Get(name), x.Answer[name], "%s", name)
	}
	if resp.Header.Get("X-Server-Time") != "" {
		t.Error("X-Server-Time was passed on")
	}
	want := x.Raw
	if x.Status == http.StatusOK {
		_, want = x.send(t, s.NodeURL())
	}
	if diff := cmp.Diff(want, body); diff != "" && x.Method != http.MethodHead && !strings.Contains(x.Name, "broadcast") {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}
