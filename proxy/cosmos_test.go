package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/devnet"
	sdk "github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

const (
	sdkPool   = "/cosmos/staking/v1beta1/pool"
	sdkWide   = "/cosmos/staking/v1beta1/delegations/" + sdk.WideDelegator
	sdkTxs    = "/cosmos/tx/v1beta1/txs"
	sdkSender = "/cosmos/auth/v1beta1/accounts/cosmos12kutx3kczqewx4jz7wte4fenenh7z3m257zlez"
)

// get sends a GET with pairs of header names and values.
func (s *sdkService) get(t *testing.T, path string, headers ...string) exchange {
	t.Helper()
	return s.do(t, http.MethodGet, path, "", headers...)
}

func (s *sdkService) do(t *testing.T, method, path, body string, headers ...string) exchange {
	t.Helper()
	x := recordedRequest{nodetest.Exchange{Name: path, Method: method, Body: body}}
	x.Path, x.Query, _ = strings.Cut(path, "?")
	for i := 0; i < len(headers); i += 2 {
		x.Headers = append(x.Headers, [2]string{headers[i], headers[i+1]})
	}
	return x.send(t, s.server.URL)
}

func (s *sdkService) advance(t *testing.T) {
	t.Helper()
	s.Advance(1)
	expect.NoError(t, s.pool.WaitHeight(t.Context(), s.Height()))
}

func (s *sdkService) reads(path string) int64 { return s.Stats().Node.Of(path) }

func TestTransactionIsFoundInNextBlock(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	hash := gjson.Get(s.broadcast(t).body, "tx_response.txhash").String()
	s.get(t, sdkTxs+"/"+hash).expect(t, http.StatusNotFound)
	sequence := func(e exchange) int64 { return gjson.Get(e.body, "account.sequence").Int() }
	before := sequence(s.get(t, sdkSender))
	s.advance(t)
	found := s.get(t, sdkTxs+"/"+strings.ToLower(hash))
	found.expect(t, http.StatusOK)
	expect.Equal(t, gjson.Get(found.body, "tx_response.height").String(), "1001", "height of the transaction")
	expect.Equal(t, sequence(s.get(t, sdkSender, "X-Min-Block-Height", "1001")), before+1, "sequence of the sender")
	s.advance(t)
	reads := s.Stats().Node.Reads
	s.get(t, sdkTxs+"/"+hash).expect(t, http.StatusOK)
	expect.Equal(t, s.Stats().Node.Reads, reads, "node requests after a request for the same transaction")
}

func TestCachedEntriesAreServedDuringRestartAndOutage(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	paths := []string{sdkPool, sdkWide, sdkTxs + "/" + sdk.DelegateTx, "/cosmos/base/tendermint/v1beta1/blocks/latest"}
	for _, path := range paths {
		s.get(t, path)
	}
	s.Node().Restart()
	for _, path := range append(paths, "/cosmos/base/tendermint/v1beta1/node_info", "/cosmos/base/tendermint/v1beta1/syncing", "/cosmos/base/tendermint/v1beta1/blocks/999") {
		s.get(t, path).expect(t, http.StatusOK)
	}
	expect.NoError(t, s.SetFaults(devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}}))
	s.advance(t)
	for _, path := range paths {
		s.get(t, path).expect(t, http.StatusOK)
	}
	s.get(t, "/cosmos/mint/v1beta1/inflation").expect(t, http.StatusBadGateway, `"code":14,`, `"details":[]`) // not cached
}

func TestCachedEntryServedAfterNodeError(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s := newSDK(t, devnet.Options{}, nil)
			const latest = "/cosmos/base/tendermint/v1beta1/blocks/latest"
			s.get(t, sdkPool)
			s.get(t, latest)
			expect.NoError(t, s.SetFaults(devnet.Faults{Node: devnet.Fault{ErrorRate: 1, ErrorStatus: status}}))
			s.advance(t)
			for _, path := range []string{sdkPool, latest, sdkPool} {
				s.get(t, path).expect(t, http.StatusOK)
			}
			if got := s.get(t, sdkWide); got.status < http.StatusInternalServerError || strings.Contains(got.body, "dial tcp") {
				t.Errorf("response without an entry = %d %s, want a failure that names no address", got.status, got.body)
			}
		})
	}
}

func TestSDKResponsesSupportCodingsValidatorsAndPreflights(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.get(t, sdkWide, "Accept-Encoding", "gzip").expectHeader(t, "Content-Encoding", "gzip")
	unchanged := s.get(t, sdkPool, "If-None-Match", s.get(t, sdkPool).header.Get("Etag"))
	unchanged.expect(t, http.StatusNotModified)
	unchanged.expectHeader(t, "X-Cosmos-Block-Height", "1000")
	head := s.do(t, http.MethodHead, sdkPool, "")
	head.expect(t, http.StatusOK)
	expect.Equal(t, head.body, "", "body of a HEAD")
	preflight := s.do(t, http.MethodOptions, sdkPool, "", "Origin", "https://example.org", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-cosmos-block-height")
	preflight.expect(t, http.StatusNoContent)
	expect.Contains(t, preflight.header.Get("Access-Control-Allow-Headers"), "X-Cosmos-Block-Height", "Access-Control-Allow-Headers")
	for _, header := range []string{"X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "X-Block-Height"} {
		s.get(t, sdkPool, header, "990").expectHeader(t, "X-Cosmos-Block-Height", "990")
	}
	s.get(t, "/staking/validators").expect(t, http.StatusNotImplemented)
	document := s.get(t, "/openapi.json")
	document.expect(t, http.StatusOK)
	if !gjson.Get(document.body, `paths./cosmos/bank/v1beta1/balances/{address}.get`).Exists() || gjson.Get(document.body, "paths./staking/validators").Exists() {
		t.Errorf("/openapi.json = %.100s, want the paths of the SDK only", document.body)
	}
	s.get(t, "/docs").expect(t, http.StatusOK)
}

const sdkPost = `{"tx_bytes":"AAAA","mode":"BROADCAST_MODE_SYNC"}`

func TestPostsAreLimitedInSizeAndRate(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Posts = blocks.Posts{Rate: 0.001, Burst: 2, MaxBody: 100} })
	s.do(t, http.MethodPost, sdkTxs, strings.Repeat("x", 101)).expect(t, http.StatusRequestEntityTooLarge)
	expecting := dial(t, s.server.Listener.Addr())
	expect.Value(io.WriteString(expecting, "POST "+sdkTxs+" HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n"))(t)
	if line, err := expecting.answers.ReadString('\n'); line != "HTTP/1.1 413 Request Entity Too Large\r\n" {
		t.Errorf("response to a request that expects 100 Continue = %q, %v; want 413", line, err)
	}
	incomplete := dial(t, s.server.Listener.Addr())
	expect.Value(io.WriteString(incomplete, "POST "+sdkTxs+" HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"))(t)
	for range 2 { // the requests above did not count
		s.do(t, http.MethodPost, sdkTxs, sdkPost).expect(t, http.StatusOK)
	}
	refused := s.do(t, http.MethodPost, sdkTxs, `{}`)
	refused.expect(t, http.StatusTooManyRequests)
	if refused.header.Get("Retry-After") == "" {
		t.Error("response beyond the rate has no Retry-After")
	}
}

func TestTransactionsOfAllAPIsShareOneRate(t *testing.T) {
	const broadcast, simulate = `"broadcast_tx_sync","params":{"tx":"AAAA"}`, `"abci_query","params":{"path":"/cosmos.tx.v1beta1.Service/Simulate","data":"00"}`
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.RPC, o.Posts = &rpc.Options{}, blocks.Posts{Rate: 0.001, Burst: 2} })
	call := func(method string) string {
		w := httptest.NewRecorder()
		s.proxy.RPC().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"id":1,"method":`+method+`}`)))
		return w.Body.String()
	}
	for _, method := range []string{broadcast, simulate} {
		if body := call(method); strings.Contains(body, "-32000") {
			t.Errorf("%s = %s, want it within the rate", method, body)
		}
	}
	s.do(t, http.MethodPost, sdkTxs, sdkPost).expect(t, http.StatusTooManyRequests)
	for _, method := range []string{broadcast, simulate} {
		expect.Contains(t, call(method), `"code":-32000,"message":"Server error","data":"too many transactions`, "%s", method)
	}
}

func TestIncompleteBodiesOfOneClientUseLimitedMemory(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) {
		o.Web.Limits.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	statuses := make(chan string, 40)
	for range 40 {
		c := dial(t, s.server.Listener.Addr())
		go func() {
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: %d\r\n\r\n%s", sdkTxs, 1<<20, strings.Repeat(" ", 700<<10)) // net/http reads the rest of a refused body where that is short
			status, _ := c.answers.ReadString('\n')
			statuses <- status
		}()
	}
	for range 15 { // half of the memory holds 23 of them
		expect.Contains(t, <-statuses, " 429 ", "status")
	}
	s.do(t, http.MethodPost, sdkTxs, sdkPost, "X-Forwarded-For", "192.0.2.2").expect(t, http.StatusOK)
}

// If a node returns an error with a height, the state returned it because of the input.
func TestStateErrorIsCountedAsInputFault(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Web.Registerer = registry })
	for range 2 {
		s.get(t, "/cosmos/staking/v1beta1/delegations/abc").expect(t, http.StatusInternalServerError)
	}
	for fault, want := range map[string]float64{"input": 2, "server": 0} {
		expect.Equal(t, expect.Metric(t, registry, "tipcache_proxy_requests_total", fault), want, "requests with fault %s", fault)
	}
}

func TestVerificationOfMembershipDoesNotCountAsTransaction(t *testing.T) {
	const path = "/ibc/core/client/v1/verify_membership"
	var reads atomic.Int64
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Posts = blocks.Posts{Rate: .001, Burst: 1} })
	s.Node().Handle(path, func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Cosmos-Block-Height", r.Header.Get("X-Cosmos-Block-Height"))
		w.Header().Set("Grpc-Metadata-X-Cosmos-Block-Height", r.Header.Get("X-Cosmos-Block-Height"))
		fmt.Fprintf(w, `{"success":true,"was":%s}`, body)
	})
	for _, height := range []string{"2", "3", "3"} {
		got := s.do(t, http.MethodPost, path, `{"a":1}`, "X-Cosmos-Block-Height", height)
		got.expect(t, http.StatusOK)
		got.expectHeader(t, "X-Block-Height", height)
		expect.Equal(t, got.body, `{"success":true,"was":{"a":1}}`, "body at height %s", height)
	}
	expect.Equal(t, reads.Load(), 3, "node requests, which are not cached")
	simulate := func() exchange { return s.do(t, http.MethodPost, "/cosmos/tx/v1beta1/simulate", "{}") }
	if first := simulate(); first.status == http.StatusTooManyRequests {
		t.Errorf("first simulation = %d %s, want it within the rate", first.status, first.body)
	}
	simulate().expect(t, http.StatusTooManyRequests, "transactions")
}
