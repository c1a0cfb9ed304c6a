package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// get asks the server with pairs of header names and values.
func (s *sdkService) get(t *testing.T, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	return s.do(t, http.MethodGet, path, "", headers...)
}

func (s *sdkService) do(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	x := sdkExchange{nodetest.Exchange{Name: path, Method: method, Body: body}}
	x.Path, x.Query, _ = strings.Cut(path, "?")
	for i := 0; i < len(headers); i += 2 {
		x.Headers = append(x.Headers, [2]string{headers[i], headers[i+1]})
	}
	return x.send(t, s.server.URL)
}

func (s *sdkService) advance(t *testing.T) {
	t.Helper()
	s.Advance(1)
	s.waitTip(t)
}

func (s *sdkService) reads(path string) int64 { return s.Stats().Node.Of(path) }

func TestSDKNodeIsReadOncePerKeyAndBlock(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	for block := range 3 {
		before := s.reads(sdkWide)
		for _, path := range []string{
			sdkWide + "?pagination.limit=8&pagination.count_total=true", sdkWide + "?pagination.countTotal=1&pagination.limit=010&x=y",
			sdkWide + ":?pagination.limit=0x8&pagination.count_total=T", strings.ReplaceAll(sdkWide, sdk.WideDelegator, strings.ToUpper(sdk.WideDelegator)) + "?pagination.limit=8&pagination.count_total=true",
		} {
			for deadline := time.Now().Add(time.Minute); ; {
				resp, body := s.get(t, path)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
				}
				if resp.Header.Get("X-Cosmos-Block-Height") == resp.Header.Get("X-Block-Height") && resp.Header.Get("X-Block-Height") == strconv.FormatInt(s.Height(), 10) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s stays at %s", path, resp.Header.Get("X-Block-Height"))
				}
			}
		}
		expect.Equal(t, s.reads(sdkWide)-before, 1, "node requests in block %d (%+v)", block, s.Stats().Node.ReadCounts)
		s.advance(t)
	}
}

func TestErrorOfTheStateIsReadOncePerBlock(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	const path = "/cosmos/gov/v1/proposals/999"
	for range 3 {
		resp, _ := s.get(t, path)
		if got := []any{resp.StatusCode, resp.Header.Get("Grpc-Metadata-X-Cosmos-Block-Height"), resp.Header.Get("X-Cosmos-Block-Height")}; !slices.Equal(got, []any{404, "1000", ""}) {
			t.Errorf("got %v", got)
		}
	}
	expect.Equal(t, s.reads(path), 1, "node requests")
}

func TestTransactionIsFoundInNextBlock(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	var send string
	for _, x := range nodetest.Exchanges(t, "../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		if x.Name == "post_broadcast_sync_ok" {
			send = x.Body
		}
	}
	_, answer := s.do(t, http.MethodPost, sdkTxs, send)
	hash := gjson.Get(answer, "tx_response.txhash").String()
	if resp, body := s.get(t, sdkTxs+"/"+hash); resp.StatusCode != http.StatusNotFound {
		t.Fatalf("at once: %d %s", resp.StatusCode, body)
	}
	_, before := s.get(t, sdkSender)
	s.advance(t)
	resp, body := s.get(t, sdkTxs+"/"+strings.ToLower(hash))
	if resp.StatusCode != http.StatusOK || gjson.Get(body, "tx_response.height").String() != "1001" {
		t.Errorf("a block later: %d %.100s", resp.StatusCode, body)
	}
	_, after := s.get(t, sdkSender, "X-Min-Block-Height", "1001")
	if gjson.Get(before, "account.sequence").Int()+1 != gjson.Get(after, "account.sequence").Int() {
		t.Errorf("the sequence went from %s to %s", before, after)
	}
	s.advance(t)
	asked := s.Stats().Node.Reads
	if resp, _ = s.get(t, sdkTxs+"/"+hash); resp.StatusCode != http.StatusOK || s.Stats().Node.Reads != asked {
		t.Errorf("what was found was asked for again: %v", resp.Header)
	}
}

func TestClientsDoNotNoticeARestartOrAnOutage(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	paths := []string{sdkPool, sdkWide, sdkTxs + "/" + sdk.DelegateTx, "/cosmos/base/tendermint/v1beta1/blocks/latest"}
	for _, path := range paths {
		s.get(t, path)
	}
	s.Node().Restart()
	for _, path := range append(paths, "/cosmos/base/tendermint/v1beta1/node_info", "/cosmos/base/tendermint/v1beta1/syncing", "/cosmos/base/tendermint/v1beta1/blocks/999") {
		if resp, body := s.get(t, path); resp.StatusCode != http.StatusOK {
			t.Errorf("%s after a restart: %d %s", path, resp.StatusCode, body)
		}
	}
	expect.NoError(t, s.SetFaults(devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}}))
	s.advance(t)
	for _, path := range paths {
		if resp, body := s.get(t, path); resp.StatusCode != http.StatusOK {
			t.Errorf("%s without the node: %d %s", path, resp.StatusCode, body)
		}
	}
	resp, body := s.get(t, "/cosmos/mint/v1beta1/inflation")
	if resp.StatusCode != http.StatusBadGateway || gjson.Get(body, "code").Int() != 14 || !gjson.Get(body, "details").IsArray() {
		t.Errorf("what is not cached: %d %s", resp.StatusCode, body)
	}
}

func TestCachedEntryServedAfterNodeError(t *testing.T) {
	for name, status := range map[string]int{"it ends, or starts": http.StatusServiceUnavailable, "it takes too long": http.StatusGatewayTimeout} {
		t.Run(name, func(t *testing.T) {
			s := newSDK(t, devnet.Options{}, nil)
			const latest = "/cosmos/base/tendermint/v1beta1/blocks/latest"
			s.get(t, sdkPool)
			s.get(t, latest)
			expect.NoError(t, s.SetFaults(devnet.Faults{Node: devnet.Fault{ErrorRate: 1, ErrorStatus: status}}))
			s.advance(t)
			for _, path := range []string{sdkPool, latest, sdkPool} {
				if resp, body := s.get(t, path); resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %d %s", path, resp.StatusCode, body)
				}
			}
			if resp, body := s.get(t, sdkWide); resp.StatusCode < http.StatusInternalServerError || strings.Contains(body, "dial tcp") {
				t.Errorf("what is not cached: %d %s", resp.StatusCode, body)
			}
		})
	}
}

func TestSDKResponsesSupportCodingsValidatorsAndPreflights(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	resp, _ := s.get(t, sdkWide, "Accept-Encoding", "gzip")
	if resp.Header.Get("Content-Encoding") != "gzip" && resp.ContentLength > 1024 {
		t.Errorf("not encoded: %v", resp.Header)
	}
	resp, _ = s.get(t, sdkPool)
	if again, _ := s.get(t, sdkPool, "If-None-Match", resp.Header.Get("Etag")); again.StatusCode != http.StatusNotModified || again.Header.Get("X-Cosmos-Block-Height") == "" {
		t.Errorf("got %d %v", again.StatusCode, again.Header)
	}
	if head, body := s.do(t, http.MethodHead, sdkPool, ""); head.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d %q", head.StatusCode, body)
	}
	preflight, _ := s.do(t, http.MethodOptions, sdkPool, "", "Origin", "https://example.org", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-cosmos-block-height")
	if preflight.StatusCode != http.StatusNoContent || !strings.Contains(preflight.Header.Get("Access-Control-Allow-Headers"), "X-Cosmos-Block-Height") {
		t.Errorf("preflight: %d %v", preflight.StatusCode, preflight.Header)
	}
	for _, header := range []string{"X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "X-Block-Height"} {
		if resp, _ := s.get(t, sdkPool, header, "990"); resp.Header.Get("X-Cosmos-Block-Height") != "990" {
			t.Errorf("%s: %v", header, resp.Header)
		}
	}
	if resp, _ := s.get(t, "/staking/validators"); resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("a path of Story's is %d", resp.StatusCode)
	}
	if resp, body := s.get(t, "/openapi.json"); resp.StatusCode != http.StatusOK || !gjson.Get(body, `paths./cosmos/bank/v1beta1/balances/{address}.get`).Exists() || gjson.Get(body, "paths./staking/validators").Exists() {
		t.Errorf("/openapi.json: %d %.100s", resp.StatusCode, body)
	}
	if resp, body := s.get(t, "/docs"); resp.StatusCode != http.StatusOK {
		t.Errorf("/docs: %d %.100s", resp.StatusCode, body)
	}
}

const sdkPost = `{"tx_bytes":"AAAA","mode":"BROADCAST_MODE_SYNC"}`

func TestPostsAreBounded(t *testing.T) {
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Posts = blocks.Posts{Rate: 0.001, Burst: 2, MaxBody: 100} })
	if resp, body := s.do(t, http.MethodPost, sdkTxs, strings.Repeat("x", 101)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d %s", resp.StatusCode, body)
	}
	expecting := dial(t, s.server.Listener.Addr())
	expect.Value(io.WriteString(expecting, "POST "+sdkTxs+" HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n"))(t)
	if line, err := bufio.NewReader(expecting).ReadString('\n'); line != "HTTP/1.1 413 Request Entity Too Large\r\n" {
		t.Errorf("a request that expects 100 Continue gets %q, %v; want 413 before its body", line, err)
	}
	begun := dial(t, s.server.Listener.Addr()) // of a body that does not come
	expect.Value(io.WriteString(begun, "POST "+sdkTxs+" HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"))(t)
	for range 2 { // neither of these took a token
		if resp, body := s.do(t, http.MethodPost, sdkTxs, sdkPost); resp.StatusCode != http.StatusOK {
			t.Errorf("small: %d %s", resp.StatusCode, body)
		}
	}
	if resp, body := s.do(t, http.MethodPost, sdkTxs, `{}`); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("too many: %d %s", resp.StatusCode, body)
	}
}

// A transaction takes the same turn whichever interface it comes through, and so does its simulation.
func TestPostsOfAllAPIsShareOneRate(t *testing.T) {
	const broadcast, simulate = `"broadcast_tx_sync","params":{"tx":"AAAA"}`, `"abci_query","params":{"path":"/cosmos.tx.v1beta1.Service/Simulate","data":"00"}`
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.RPC, o.Posts = &rpc.Options{}, blocks.Posts{Rate: 0.001, Burst: 2} })
	call := func(method string) string {
		w := httptest.NewRecorder()
		s.proxy.RPC().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"id":1,"method":`+method+`}`)))
		return w.Body.String()
	}
	for _, method := range []string{broadcast, simulate} {
		if body := call(method); strings.Contains(body, "-32000") {
			t.Errorf("%s: %s", method, body)
		}
	}
	if resp, body := s.do(t, http.MethodPost, sdkTxs, sdkPost); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("by REST: %d %s", resp.StatusCode, body)
	}
	for _, method := range []string{broadcast, simulate} {
		expect.Contains(t, call(method), `"code":-32000,"message":"Server error","data":"too many transactions`, "%s", method)
	}
}

// However many bodies a client begins, they take a bounded part of the memory, and
// others have room for theirs.
func TestBodiesThatDoNotEndAreBounded(t *testing.T) {
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
	if resp, body := s.do(t, http.MethodPost, sdkTxs, sdkPost, "X-Forwarded-For", "192.0.2.2"); resp.StatusCode != http.StatusOK {
		t.Errorf("the other address got %d %s", resp.StatusCode, body)
	}
}

// An error that the node returns with a height was returned by the state, because of the input.
func TestErrorOfTheStateIsCountedAsFaultOfTheInput(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Web.Registerer = registry })
	for range 2 {
		if resp, body := s.get(t, "/cosmos/staking/v1beta1/delegations/abc"); resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("status %d: %s", resp.StatusCode, body)
		}
	}
	all := strings.Join(counted(t, registry, "tipcache_proxy_requests_total"), "\n")
	if !strings.Contains(all, `fault:"input"`) || strings.Contains(all, `fault:"server"`) {
		t.Errorf("counted\n%s", all)
	}
}
