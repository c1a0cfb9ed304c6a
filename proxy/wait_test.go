package proxy_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/devnet"
	sdk "github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// broadcastHash is the hash of the transaction that broadcast sends.
const broadcastHash = "0968D876F8216096C37D6ED3640AAE6C070CA1C1D8D65A37AAA4E3DBC0BFFAE4"

// txAPI is an API by which a request can wait for a transaction.
type txAPI struct {
	name    string
	read    func(t *testing.T, hash, wait string) exchange
	counted func(hash string) string // name of its reads in the statistics of the node
	missing int                      // status if the node does not find the transaction
}

type waitingService struct {
	*sdkService
	metrics *prometheus.Registry
}

// startWaiting starts an SDK service with its RPC, and returns it with its APIs.
func startWaiting(t *testing.T, o stream.Options) (*waitingService, []txAPI) {
	t.Helper()
	s := &waitingService{metrics: prometheus.NewRegistry()}
	s.sdkService = newSDK(t, devnet.Options{}, func(p *proxy.Options) {
		p.RPC, p.Streams, p.Web.Registerer = &rpc.Options{}, o, s.metrics
	})
	server := httptest.NewServer(s.proxy.RPC())
	t.Cleanup(server.Close)
	send := func(t *testing.T, resp *http.Response, err error) exchange {
		if err != nil {
			t.Error(err)
			return exchange{}
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return exchange{status: resp.StatusCode, header: resp.Header, body: string(body)}
	}
	counted := func(hash string) string { return "tx " + hash }
	return s, []txAPI{
		{"REST", func(t *testing.T, hash, wait string) exchange {
			resp, err := http.Get(s.server.URL + sdkTxs + "/" + hash + "?" + wait)
			return send(t, resp, err)
		}, func(hash string) string { return sdkTxs + "/" + hash }, http.StatusNotFound},
		{"RPC by GET", func(t *testing.T, hash, wait string) exchange {
			resp, err := http.Get(server.URL + "/tx?hash=0x" + hash + "&" + wait)
			return send(t, resp, err)
		}, counted, http.StatusInternalServerError},
		{"RPC by POST", func(t *testing.T, hash, wait string) exchange {
			raw, _ := hex.DecodeString(hash)
			params := `"hash":"` + base64.StdEncoding.EncodeToString(raw) + `"`
			if values, _ := url.ParseQuery(wait); values["wait"] != nil {
				params += fmt.Sprintf(`,"wait":%q`, values.Get("wait"))
			}
			resp, err := http.Post(server.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tx","params":{`+params+`}}`))
			return send(t, resp, err)
		}, counted, http.StatusOK},
	}
}

// broadcast sends the recorded transaction.
func (s *sdkService) broadcast(t *testing.T) exchange {
	t.Helper()
	for _, x := range nodetest.Exchanges(t, "../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		if x.Name == "post_broadcast_sync_ok" {
			return s.do(t, http.MethodPost, sdkTxs, x.Body)
		}
	}
	t.Fatal("no recording has the name post_broadcast_sync_ok")
	return exchange{}
}

func isFound(e exchange) bool {
	return e.status == http.StatusOK && (strings.Contains(e.body, `"tx_response"`) || strings.Contains(e.body, `"tx_result"`))
}

// A missing transaction is read twice in a block, if the block takes long enough.
func TestReadsOfABlockAnswerAllTransactionWaits(t *testing.T) {
	for i := range 3 {
		s, apis := startWaiting(t, stream.Options{})
		api, answers := apis[i], make(chan exchange, 30)
		t.Run(api.name, func(t *testing.T) {
			hash := broadcastHash
			for range cap(answers) {
				go func() { answers <- api.read(t, hash, "wait=20s") }()
			}
			reads := func() int64 { return s.reads(api.counted(hash)) }
			waitForStreams(t, s.metrics, 30)
			expect.Eventually(t, "a read of the node", func() bool { return reads() > 0 })
			before := reads()
			s.advance(t)
			expect.Eventually(t, "a read of the node at the next block", func() bool { return reads() > before })
			if s.broadcast(t); len(answers) > 0 {
				t.Fatalf("response before the transaction is in a block: %v", <-answers)
			}
			s.advance(t)
			for range cap(answers) {
				if got := <-answers; !isFound(got) {
					t.Fatalf("response = %d %s, want the transaction", got.status, got.body)
				}
			}
			before = reads()
			if got := api.read(t, hash, ""); !isFound(got) || reads() != before || before > 2+2+1 {
				t.Errorf("response without wait = %d after %d and %d reads, want the entry of the fifth read or an earlier one", got.status, before, reads())
			}
		})
	}
}

func TestWaitEndsWithTheNodesOwnAnswer(t *testing.T) {
	for i := range 3 {
		s, apis := startWaiting(t, stream.Options{Settings: stream.Settings{Max: 2}})
		api, held := apis[i], make(chan exchange, 1)
		t.Run(api.name, func(t *testing.T) {
			go func() { held <- api.read(t, broadcastHash, "wait=20s") }()
			reads := func() int64 { return s.reads(api.counted(broadcastHash)) }
			expect.Eventually(t, "a read of the node", func() bool { return reads() > 0 })
			want := ""
			for range 5 {
				got := api.read(t, broadcastHash, "wait=30ms")
				if want == "" {
					want = got.body
				}
				if got.status != api.missing || got.body != want || !strings.Contains(got.body, "not found") {
					t.Fatalf("response = %d %s, want the node's %d", got.status, got.body, api.missing)
				}
			}
			if n := reads(); n > 2 {
				t.Errorf("node reads in a block = %d, want 2 at most", n)
			}
			go func() { held <- api.read(t, broadcastHash, "wait=19s") }()
			waitForStreams(t, s.metrics, 2)
			api.read(t, broadcastHash, "wait=1s").expect(t, http.StatusServiceUnavailable, "too many requests wait for a change")
			s.proxy.Drain()
			for range 2 {
				if got := <-held; got.status != api.missing || got.body != want || got.header.Get("Retry-After") != "1" {
					t.Errorf("response of a drained server = %d %s %v, want the node's with Retry-After: 1", got.status, got.body, got.header)
				}
			}
			api.read(t, broadcastHash, "wait=1s").expect(t, http.StatusServiceUnavailable, "about to stop")
		})
	}
}

func TestInvalidWaitIsRefused(t *testing.T) {
	s, apis := startWaiting(t, stream.Options{})
	for _, api := range apis {
		for _, wait := range []string{"wait=20", "wait=21s", "wait=-1s", "wait=soon", "wait=", "wait=1s&wait=2s"} {
			if api.name == "RPC by POST" && strings.Count(wait, "wait") > 1 {
				continue
			}
			if got := api.read(t, broadcastHash, wait); got.status != http.StatusBadRequest || !strings.Contains(got.body, "wait is ") || !strings.HasPrefix(got.body, "{") {
				t.Errorf("%s with %s = %d %s, want 400", api.name, wait, got.status, got.body)
			}
		}
	}
	for target, want := range map[string]int{
		sdkPool + "?wait=soon":                             http.StatusOK, // has no such parameter
		sdkTxs + "/" + broadcastHash + "?since=0&wait=1s":  http.StatusBadRequest,
		sdkTxs + "/" + broadcastHash + "?%57AIT=1ms&a=%zz": http.StatusBadRequest,
		sdkTxs + "/" + sdk.DelegateTx + "?wait=20s":        http.StatusOK,
		sdkTxs + "/xyz?wait=20s":                           http.StatusInternalServerError,
	} {
		s.get(t, target).expect(t, want)
	}
	for _, read := range s.Stats().Node.ReadCounts {
		if strings.Contains(strings.ToLower(read.URI), "wait") || strings.Contains(read.URI, "%57") {
			t.Errorf("node request = %s, want no wait in it", read.URI)
		}
	}
}

func TestWaitIsRefusedInBatchesAndOverWebSockets(t *testing.T) {
	s, _ := startWaiting(t, stream.Options{})
	const call = `{"hash":"AAAA","wait":"20s"}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/websocket", nil)
	w := httptest.NewRecorder()
	s.proxy.RPC().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`[{"id":1,"method":"tx","params":`+call+`},{"id":2,"method":"health"}]`)))
	for _, got := range []string{string(s.proxy.RPC().Call(r, "tx", json.RawMessage(call)).Member), w.Body.String()} {
		if !strings.Contains(got, "wait is accepted in a single call") {
			t.Errorf("response in a batch or over a WebSocket = %s, want a refusal of wait", got)
		}
	}
	for _, path := range []string{"/live", "/batch"} {
		for _, wait := range []string{"wait", "WAIT"} {
			target := path + "?path=" + url.QueryEscape(sdkTxs+"/"+broadcastHash+"?"+wait+"=20s")
			s.get(t, target).expect(t, http.StatusBadRequest, "has the parameter wait; request it alone")
		}
	}
}
