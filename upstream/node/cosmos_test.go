package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights"
)

// newDevnet starts a simulated chain without blocks of its own.
func newDevnet(t *testing.T, dialect Dialect, o devnet.Options) *devnet.Devnet {
	t.Helper()
	o.Dialect, o.Interval = devnet.Dialect(dialect), -1
	return devnettest.Start(t, o)
}

// runPool runs a pool until the end of the test.
func runPool(t *testing.T, o Options) *Pool {
	t.Helper()
	p := expect.Value(New(o))(t)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	t.Cleanup(func() { _ = p.Close(); <-ended })
	return p
}

// sdkPool runs a pool in front of a simulated SDK chain, with CometBFT if comet is set.
func sdkPool(t *testing.T, o devnet.Options, comet bool) (*Pool, *devnet.Devnet) {
	t.Helper()
	d := newDevnet(t, Cosmos, o)
	endpoint := Endpoint{REST: d.NodeURL()}
	if comet {
		endpoint.Comet = d.CometURL()
	}
	p := runPool(t, Options{Dialect: Cosmos, Endpoints: []Endpoint{endpoint}, BlockInterval: 100 * time.Millisecond})
	waitForTip(t, p, d.Height())
	return p, d
}

// waitForTip waits until the tip has reached a height.
func waitForTip(t *testing.T, p *Pool, height int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !p.Tip().Known || p.Tip().Height < height {
		expect.NoError(t, p.WaitHeight(ctx, height))
	}
}

func TestSDKErrorsAreClassifiedWithoutTheirText(t *testing.T) {
	const (
		unknown = "/cosmos/gov/v1/proposals/999"
		broken  = "/cosmos/staking/v1beta1/delegations/abc"
		pool    = "/cosmos/staking/v1beta1/pool"
		absent  = "/cosmos/nope"
		block   = "/cosmos/base/tendermint/v1beta1/blocks/20"
	)
	for name, noGRPC := range map[string]bool{"by gRPC": false, "without gRPC": true} {
		t.Run(name, func(t *testing.T) {
			p, _ := sdkPool(t, devnet.Options{NoGRPC: noGRPC, KeepRecent: 50}, true)
			for what, step := range map[string]struct {
				request Request
				reason  Reason
				status  int
				height  int64
			}{
				"state at the tip":           {Request{Path: pool, Height: AtTip}, OK, 200, 1000},
				"state at a height":          {Request{Path: pool, Height: 990}, OK, 200, 990},
				"pruned height":              {Request{Path: pool, Height: 900}, Pruned, 500, 900},
				"future height":              {Request{Path: pool, Height: 2000}, FutureHeight, 500, 2000},
				"missing object":             {Request{Path: unknown, Height: AtTip}, Refused, 404, 1000},
				"missing object at a height": {Request{Path: unknown, Height: 990}, Refused, 404, 990},
				"error with status 500":      {Request{Path: broken, Height: AtTip}, Refused, 500, 1000},
				"missing path":               {Request{Path: absent, Height: AtTip}, BadInput, 501, 0},
				"block below the kept state": {Request{Path: block, Height: AtTip, Unpinned: true}, OK, 200, 1000},
			} {
				a, err := p.Fetch(t.Context(), step.request)
				if err != nil {
					t.Errorf("%s: error %v, want an answer", what, err)
					continue
				}
				expect.NoDiff(t, []any{a.Reason, a.NodeStatus, a.Height}, []any{step.reason, step.status, step.height}, "answer for %s (%s)", what, a.Body)
			}
		})
	}
}

func TestUnpinnedErrorWithoutGRPCIsCausedByTheRequest(t *testing.T) {
	p, d := sdkPool(t, devnet.Options{NoGRPC: true}, true)
	search := Request{Path: "/cosmos/tx/v1beta1/txs", Height: AtTip, Unpinned: true}
	a, err := p.Fetch(t.Context(), search)
	if err != nil || a.Reason != BadInput || a.NodeStatus != http.StatusInternalServerError {
		t.Errorf("search without a query = %+v, %v; want bad input with status 500", a, err)
	}
	expect.Equal(t, p.Health()[0].LastError, "", "last error of the node")
	d.Node().Restart()
	if a, err = p.Fetch(t.Context(), search); !errors.Is(err, ErrNoLatest) {
		t.Errorf("search after a restart = %+v, %v; want %v", a, err, ErrNoLatest)
	}
}

func TestStartingSDKNodeIsReadAtHeights(t *testing.T) {
	p, d := sdkPool(t, devnet.Options{}, true)
	d.Node().Restart()
	if a, err := p.Fetch(t.Context(), Request{Path: "/cosmos/staking/v1beta1/pool", Height: AtTip}); err != nil || a.Reason != OK {
		t.Errorf("pinned: answer %v, error %v, want OK", a, err)
	}
	tx := Request{Path: "/cosmos/base/tendermint/v1beta1/blocks/20", Height: AtTip, Unpinned: true}
	if a, err := p.Fetch(t.Context(), tx); !errors.Is(err, ErrNoLatest) {
		t.Errorf("unpinned: answer %v, error %v, want %v", a, err, ErrNoLatest)
	}
	d.Advance(1)
	if a, err := p.Fetch(t.Context(), tx); err != nil || a.Reason != OK {
		t.Errorf("after a block: answer %v, error %v, want OK", a, err)
	}
}

func TestTipComesFromAnswersWithoutCometBFT(t *testing.T) {
	p, d := sdkPool(t, devnet.Options{}, false)
	d.Advance(3)
	waitForTip(t, p, d.Height())
	expect.Equal(t, p.Tip().Height, d.Height(), "tip")
}

// SDK 0.54 may name the height in gRPC trailers, which its REST server drops, and so may a gateway drop the header.
func TestAnswerThatNamesNoHeightIsOfTheRequestedOne(t *testing.T) {
	d := newDevnet(t, Cosmos, devnet.Options{})
	gateway := httputil.NewSingleHostReverseProxy(expect.Value(url.Parse(d.NodeURL()))(t))
	gateway.ModifyResponse = func(r *http.Response) error {
		r.Header.Del(heightHeader)
		r.Header.Del(metadataHeader)
		if strings.HasSuffix(r.Request.URL.Path, "/pool") {
			d.Advance(1)
		}
		return nil
	}
	server := httptest.NewServer(gateway)
	t.Cleanup(server.Close)
	p := runPool(t, Options{Dialect: Cosmos, Endpoints: []Endpoint{{REST: server.URL, Comet: d.CometURL()}}, BlockInterval: 100 * time.Millisecond})
	tip := d.Height()
	waitForTip(t, p, tip)
	for _, height := range []int64{AtTip, tip - 5} {
		want := height
		if height == AtTip {
			want = tip
		}
		a := expect.Value(p.Fetch(t.Context(), Request{Path: "/cosmos/staking/v1beta1/pool", Height: height}))(t)
		expect.Equal(t, a.Height, want, "height of the answer to a read at %d", height)
		tip = d.Height()
		waitForTip(t, p, tip)
	}
}

// A node that is stopping responds like this: its REST server still runs, but its application does not.
func TestGatewayWithoutApplicationIsABadAnswer(t *testing.T) {
	p, d := sdkPool(t, devnet.Options{}, true)
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{ErrorRate: 1}}))
	a, err := p.Fetch(t.Context(), Request{Path: "/cosmos/staking/v1beta1/pool", Height: AtTip})
	if silent, ok := errors.AsType[*upstream.Error](err); !ok || silent.Kind != upstream.BadAnswer {
		t.Errorf("Fetch = %+v, %v, want an error of kind %v", a, err, upstream.BadAnswer)
	}
}

func TestPostIsSentOnceToOneNode(t *testing.T) {
	post := Request{Path: "/cosmos/tx/v1beta1/txs", Height: AtTip, Unpinned: true, Post: &Post{Body: []byte(`{}`), Type: "application/json"}}
	var posts atomic.Int32
	var failing []Endpoint // may have executed the request
	for range 2 {
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				posts.Add(1)
			}
			panic(http.ErrAbortHandler)
		}))
		t.Cleanup(server.Close)
		failing = append(failing, Endpoint{REST: server.URL})
	}
	p := newPool(t, Options{Dialect: Cosmos, Endpoints: failing})
	if a, err := p.Fetch(t.Context(), post); err == nil || posts.Load() != 1 {
		t.Errorf("answer %v, sent %d times, want an error after one", a, posts.Load())
	}
	p, _ = sdkPool(t, devnet.Options{}, true)
	if a, err := p.Fetch(t.Context(), post); err != nil || a.Status != 500 {
		t.Errorf("answer %+v, error %v, want status 500", a, err)
	}
}

func TestUnknownDialectIsRejected(t *testing.T) {
	if _, err := New(Options{Dialect: "bitcoin", Endpoints: []Endpoint{{REST: "http://127.0.0.1:1"}}}); err == nil {
		t.Error("New with the dialect bitcoin = nil, want an error")
	}
}

func TestDetectReturnsTheNodesDialect(t *testing.T) {
	for _, want := range []Dialect{Story, Cosmos} {
		d := newDevnet(t, want, devnet.Options{})
		silent := Endpoint{REST: "http://127.0.0.1:1"}
		if got, err := Detect(t.Context(), []Endpoint{silent, {REST: d.NodeURL()}}); got != want || err != nil {
			t.Errorf("Detect = %s, %v; want %s", got, err, want)
		}
		for url, speaks := range map[string]API{d.CometURL(): CometRPC, d.EVMURL(): ExecutionJSON} {
			if got, err := Detect(t.Context(), []Endpoint{{REST: url}}); err == nil || !strings.HasSuffix(err.Error(), "it speaks "+string(speaks)) {
				t.Errorf("Detect = %s, %v; want an error because it speaks %s", got, err, speaks)
			}
		}
		d.Node().Restart()
		if got, err := Detect(t.Context(), []Endpoint{{REST: d.NodeURL()}}); got != want || err != nil {
			t.Errorf("Detect after a restart = %s, %v; want %s", got, err, want)
		}
		_ = d.Close()
		if got, err := Detect(t.Context(), []Endpoint{{REST: d.NodeURL()}}); err == nil {
			t.Errorf("Detect = %s for a stopped node, want an error", got)
		}
	}
}

func TestSDKNodeOfAnotherChainIsRefusedWithoutCometBFT(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, Cosmos, devnet.Options{})
	p := runPool(t, Options{Dialect: Cosmos, ChainID: "another-1", Endpoints: []Endpoint{{REST: d.NodeURL()}}, BlockInterval: 100 * time.Millisecond})
	expect.Eventually(t, "the node to be refused", func() bool { h := p.Health()[0]; return h.WrongChain && h.ChainID != "" })
	_, err := p.Fetch(within(t, time.Second), Request{Path: "/cosmos/auth/v1beta1/params", Height: AtTip})
	wantKind(t, err, upstream.Unreachable)
}

func TestHeightsAreFollowedAlthoughNodeInfoFails(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"hangs":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"refused": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"deadline": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, `{"code":4,"message":"deadline","details":[]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, Cosmos, devnet.Options{})
			node := httputil.NewSingleHostReverseProxy(expect.Value(url.Parse(d.NodeURL()))(t))
			var asked atomic.Int64
			gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/node_info") {
					asked.Add(1)
					fail(w, r)
					return
				}
				node.ServeHTTP(w, r)
			}))
			defer gateway.Close()
			p := runPool(t, Options{Settings: Settings{Timeout: 500 * time.Millisecond}, Dialect: Cosmos, Endpoints: []Endpoint{{REST: gateway.URL}}, BlockInterval: 100 * time.Millisecond})
			for range 3 {
				before := p.Tip().Height
				expect.Eventually(t, "a new block", func() bool { d.Advance(1); return p.Tip().Known && p.Tip().Height > before })
			}
			if name == "refused" && asked.Load() != 1 {
				t.Errorf("requests for the refused path = %d, want 1", asked.Load())
			}
		})
	}
}

func TestBlockHashComesFromTheNextBlock(t *testing.T) {
	for name, tt := range map[string]struct{ height, hash, want string }{
		"the next block":           {"8", "qw==", "AB"},
		"another block":            {"7", "qw==", ""},
		"a block without a hash":   {"8", "", ""},
		"a hash that breaks off":   {"8", "q6ur!", ""},
		"a block without a height": {"", "qw==", ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			expect.Equal(t, r.URL.Path, "/cosmos/base/tendermint/v1beta1/blocks/8", "path")
			fmt.Fprintf(w, `{"block":{"header":{"height":%q,"last_block_id":{"hash":%q}}}}`, tt.height, tt.hash)
		}))
		defer server.Close()
		p := expect.Value(New(Options{Dialect: Cosmos, Endpoints: []Endpoint{{REST: server.URL}}}))(t)
		defer p.Close()
		hash, err := p.endpoints()[0].BlockHash(t.Context(), 7)
		if hash != tt.want || errors.Is(err, heights.ErrNoHash) != (tt.want == "") {
			t.Errorf("BlockHash from %s = %q, %v; want %q", name, hash, err, tt.want)
		}
	}
}
