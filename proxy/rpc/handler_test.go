package rpc_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/expect"
)

// balance is a query for state in two spellings: of the bytes, and of the parameters.
var balance = [2]string{
	`{"jsonrpc":"2.0","id":%s,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params","data":"","prove":false}}`,
	`{"id":%s,"method":"abci_query","params":{"data":"","height":"0","path":"/cosmos.staking.v1beta1.Query/Params"}}`,
}

func post(t testing.TB, url, body string) (*http.Response, string) {
	t.Helper()
	resp := expect.Value(http.Post(url, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return resp, string(text)
}

// learnParams has the node answer the query of balance, at its newest block.
func (n *recordedNode) learnParams() {
	n.says(`abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`,
		`"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"746","codespace":""}}`)
}

func TestEquivalentCallsShareOneRead(t *testing.T) {
	n := newRecordedNode(t)
	n.learnParams()
	server, _ := newHandler(t, n, rpc.Options{})
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			id := fmt.Sprint(1000 + i)
			resp, body := post(t, server.URL, fmt.Sprintf(balance[i%2], id))
			if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":`+id+`,"result":{"response":{"code":0,`) {
				t.Errorf("call %s: %s", id, body)
			}
			if at := resp.Header.Get("X-Block-Height"); at != "746" || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("call %s: at block %q, %q", id, at, resp.Header.Get("Cache-Control"))
			}
		})
	}
	clients.Wait()
	expect.Equal(t, n.times("abci_query"), 1, "node requests")
}

func TestProofAtTheNewestBlockIsReadOnceHoweverItsHeightIsGiven(t *testing.T) {
	n := newRecordedNode(t)
	n.says(`abci_query{"data":"02","path":"/store/bank/key","prove":true}`, `"result":{"response":{"code":0,"value":"Cg==","height":"746"}}`)
	server, _ := newHandler(t, n, rpc.Options{})
	for _, height := range []string{"", `,"height":"0"`} {
		_, body := post(t, server.URL, `{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"/store/bank/key","data":"02","prove":true`+height+`}}`)
		expect.Contains(t, body, `"value":"Cg=="`, "with height %q", height)
	}
	expect.Equal(t, n.times("abci_query"), 1, "node requests")
}

func TestCallsAndBatchesAreAnsweredUnderTheirNumericIDs(t *testing.T) {
	n := newRecordedNode(t)
	n.learnParams()
	server, _ := newHandler(t, n, rpc.Options{})
	for _, id := range []string{"1.5", "9223372036854775808", "1e30", "-0"} {
		body := fmt.Sprintf(balance[0], id)
		want := `{"jsonrpc":"2.0","id":` + id + `,"result":{`
		if _, got := post(t, server.URL, body); !strings.HasPrefix(got, want) {
			t.Errorf("call %s: %s, want %s", id, got, want)
		}
		if _, got := post(t, server.URL, "["+body+","+body+"]"); strings.Count(got, want) != 2 {
			t.Errorf("batch of %s: %s, want two of %s", id, got, want)
		}
	}
}

func TestTooLongBatchGetsAnErrorForEachCall(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	_, body := post(t, server.URL, "["+strings.Repeat(`{"id":1,"method":"health"},`, rpc.MaxBatch-1)+`{"id":"b","method":"health"},{"id":3,"method":"health"}]`)
	var answers []struct {
		ID    any
		Error struct{ Code int }
	}
	if err := json.Unmarshal([]byte(body), &answers); err != nil || len(answers) != rpc.MaxBatch+1 || answers[rpc.MaxBatch-1].ID != "b" || answers[rpc.MaxBatch].Error.Code != -32600 {
		t.Errorf("%v: %s", err, body)
	}
}

// What is kept of a body of very many calls, and of their answers, is hardly more than the body.
func TestBatchOfVeryManyCallsTakesLittleMemory(t *testing.T) {
	const calls, most = 80_000, 5 << 20
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	body := "[" + strings.Repeat(`{"id":1234},`, calls-1) + `{"id":"z"}]`
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	resp := expect.Value(http.Post(server.URL, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	kept := int64(most + 1)
	for end := time.Now().Add(10 * time.Second); kept > most && time.Now().Before(end); { // the answer waits for its reader
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept = int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	if kept > most {
		t.Errorf("%d KiB are kept", kept>>10)
	}
	text, err := io.ReadAll(resp.Body)
	if n := strings.Count(string(text), `{"jsonrpc":"2.0","id":1234,"error":{"code":-32600,`); err != nil || n != calls-1 || int64(len(text)) != resp.ContentLength || !json.Valid(text) {
		t.Errorf("%d of %d calls are answered, in %d bytes of %d; %v", n, calls, len(text), resp.ContentLength, err)
	}
}

// meeting has queries wait until so many of them are under way.
func (n *recordedNode) meeting(queries int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.absent, n.met = queries, make(chan struct{})
}

func TestCallsOfABatchAreReadAtTheSameTimeAndAnsweredInOrder(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	n.meeting(20) // none is answered before all are asked
	var batch []string
	for i := range 20 {
		batch = append(batch, fmt.Sprintf(`{"id":%d,"method":"abci_query","params":{"path":"/cosmos.bank.v1beta1.Query/Balance","data":"%02X"}}`, i, i))
	}
	resp, body := post(t, server.URL, "["+strings.Join(batch, ",")+"]")
	var answers []struct {
		ID    int
		Error struct{ Data string }
	}
	if err := json.Unmarshal([]byte(body), &answers); err != nil || len(answers) != 20 || resp.Header.Get("X-Block-Height") != "746" {
		t.Fatalf("%v, at block %q: %s", err, resp.Header.Get("X-Block-Height"), body)
	}
	for i, a := range answers {
		if a.ID != i || !strings.Contains(a.Error.Data, fmt.Sprintf(`"data":"%02X"`, i)) {
			t.Errorf("answer %d is of call %d: %s", i, a.ID, a.Error.Data)
		}
	}
}

// A node runs what a batch sends in the order sent: the second transaction of an account
// counts on the first.
func TestTransactionsOfABatchAreSentOneAfterTheOther(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	var batch, want []string
	for i := range 20 {
		batch = append(batch, fmt.Sprintf(`{"id":%d,"method":"broadcast_tx_sync","params":{"tx":"AA%02d"}}`, i, i))
		want = append(want, fmt.Sprintf(`broadcast_tx_sync{"tx":"AA%02d"}`, i))
	}
	post(t, server.URL, "["+strings.Join(batch, ",")+"]")
	expect.NoDiff(t, n.wrote("broadcast_tx_sync"), want, "requests to the node")
}

// A node names a block some moments before it can read it.
func TestStatusNamesNoUnreadableBlock(t *testing.T) {
	n := newRecordedNode(t)
	want := n.calls["status"]
	later := strings.NewReplacer(`"latest_block_height":"746"`, `"latest_block_height":"747"`, "3906D40F", "00000000", "A0F6105E", "00000000", "13:14:45.524351274", "13:14:46")
	n.calls["status"] = later.Replace(want)
	n.calls[`blockchain{"maxHeight":"746","minHeight":"746"}`] = `"result":{"last_height":"747","block_metas":[{` +
		`"block_id":{"hash":"3906D40F08D75E85EA7A1DF26E99F2FC0CEF9AEBDCFD8C617218DF0E93345862"},"header":{"height":"746",` +
		`"time":"2026-11-22T13:14:45.524351274Z","app_hash":"A0F6105E0A4DDCA7890A4596EDA79CFB418767E96AA4B781046CAE57D1A3874A"}}]}`
	server, _ := newHandler(t, n, rpc.Options{})
	if _, body := post(t, server.URL, `{"jsonrpc":"2.0","id":1,"method":"status","params":{}}`); body != `{"jsonrpc":"2.0","id":1,`+want+`}` {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestTransactionIsSentToOneNodeOnce(t *testing.T) {
	n := newRecordedNode(t)
	server, metrics := newHandler(t, n, rpc.Options{})
	n.mu.Lock()
	n.silent = true
	n.mu.Unlock()
	resp, body := post(t, server.URL, `{"jsonrpc":"2.0","id":7,"method":"broadcast_tx_sync","params":{"tx":"Cg=="}}`)
	if resp.StatusCode != http.StatusBadGateway || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,`) {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
	expect.Equal(t, n.times("broadcast_tx_sync"), 1, "node requests")
	server.Close() // it has counted the request
	expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "rpc broadcast_tx_sync", "failed"), 1, "requests counted as failed")
}

func TestBodyWithoutCallIsAClientError(t *testing.T) {
	server, metrics := newHandler(t, newRecordedNode(t), rpc.Options{})
	for _, body := range []string{`{nope`, `{"id":1,"method":"block"}`} {
		if resp, answer := post(t, server.URL, body); resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: %d %s", body, resp.StatusCode, answer)
		}
	}
	server.Close() // it has counted the requests
	expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "500", "input"), 2, "requests counted as the input's fault")
}

func TestBlockIsAnsweredWhileTheNodeIsSilent(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	const call = `{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":"14"}}`
	_, before := post(t, server.URL, call)
	n.mu.Lock()
	n.silent = true
	n.mu.Unlock()
	resp, after := post(t, server.URL, call)
	if after != before || resp.StatusCode != http.StatusOK || resp.Header.Get("X-Block-Height") != "" {
		t.Errorf("%d, at block %q: %.200s", resp.StatusCode, resp.Header.Get("X-Block-Height"), after)
	}
}

// A node closes its databases before its RPC.
func TestAnswerOfStoppingNodeIsIgnored(t *testing.T) {
	const failed, read = `"error":{"code":-32603,"message":"Internal error","data":"%s"}`, `"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"%s","codespace":""}}`
	query := func(code, log, codespace string) string {
		return `"result":{"response":{"code":` + code + `,"log":"` + log + `","info":"","index":"0","key":null,"value":null,"proofOps":null,"height":"0","codespace":"` + codespace + `"}}`
	}
	for _, tt := range []struct{ method, params, said, later string }{
		{"block", "", fmt.Sprintf(failed, "leveldb: closed"), `"result":{"block_id":{}}`},
		{"consensus_params", "", fmt.Sprintf(failed, "could not find consensus params for height 747: leveldb: closed"), `"result":{"block_height":"747"}`},
		{
			"abci_query", `{"path":"/cosmos.staking.v1beta1.Query/Params"}`,
			query("111222", "version exists in store but could not retrieve corresponding versioned tree in store, leveldb: closed: panic", "undefined"), fmt.Sprintf(read, "746"),
		},
		{
			"abci_query", `{"height":"700","path":"/cosmos.staking.v1beta1.Query/Params"}`,
			query("38", "failed to load state at height 700; failed to get commit info: leveldb: closed (latest height: 746): not found", "sdk"), fmt.Sprintf(read, "700"),
		},
	} {
		t.Run(tt.method+tt.params, func(t *testing.T) {
			n := newRecordedNode(t)
			n.says(tt.method+tt.params, tt.said)
			server, _ := newHandler(t, n, rpc.Options{})
			params := tt.params
			if params == "" {
				params = "{}"
			}
			call := `{"id":7,"method":"` + tt.method + `","params":` + params + `}`
			if resp, body := post(t, server.URL, call); resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "-32000") {
				t.Errorf("while it shuts down: %s %s", resp.Status, body)
			}
			n.says(tt.method+tt.params, tt.later)
			if _, body := post(t, server.URL, call); body != `{"jsonrpc":"2.0","id":7,`+tt.later+"}" {
				t.Errorf("once it is back: %s", body)
			}
		})
	}
}

func TestPageReadByURIIsNotSentAgain(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	tag := ""
	for _, want := range []int{http.StatusOK, http.StatusNotModified} {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/header?height=5", nil))(t)
		r.Header.Set("If-None-Match", tag)
		resp := expect.Value(http.DefaultClient.Do(r))(t)
		_ = resp.Body.Close()
		expect.Equal(t, resp.StatusCode, want, "status with %q", tag)
		tag = resp.Header.Get("ETag")
	}
}

// Whatever is posted has an answer in the form of JSON-RPC, or none where it is a notification.
func FuzzBodiesAreAnswered(f *testing.F) {
	n := newRecordedNode(f)
	for _, x := range exchanges(f) {
		f.Add(x.Body)
	}
	server, _ := newHandler(f, n, rpc.Options{})
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		w := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(w, r)
		if answer := w.Body.String(); answer != "" && body != "" && !json.Valid([]byte(answer)) {
			t.Errorf("%q was answered by %q", body, answer)
		}
	})
}

func TestResultWithMoreThanAValueIsPassedOn(t *testing.T) {
	n := newRecordedNode(t)
	const result = `"result":{"response":{"code":0,"log":"told","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"746","codespace":""}}`
	n.says(`abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`, result)
	server, _ := newHandler(t, n, rpc.Options{})
	for range 2 {
		if _, body := post(t, server.URL, fmt.Sprintf(balance[0], "1")); body != `{"jsonrpc":"2.0","id":1,`+result+`}` {
			t.Error(body)
		}
	}
	expect.Equal(t, n.times("abci_query"), 1, "node requests")
}

func TestValidatorOfValueIncludesBlock(t *testing.T) {
	n := newRecordedNode(t)
	n.learnParams()
	n.calls[`abci_query{"height":"14","path":"/cosmos.staking.v1beta1.Query/Params"}`] = strings.Replace(
		n.calls[`abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`], "746", "14", 1)
	server, _ := newHandler(t, n, rpc.Options{})
	var tags []string
	for _, height := range []string{"14", "746"} {
		resp := expect.Value(http.Get(server.URL + `/abci_query?path="/cosmos.staking.v1beta1.Query/Params"&height=` + height))(t)
		_ = resp.Body.Close()
		tags = append(tags, resp.Header.Get("ETag"))
	}
	if tags[0] == tags[1] || tags[0] == "" {
		t.Errorf("the same value at two blocks has the validators %q", tags)
	}
}

func TestCallTakesPartInSession(t *testing.T) {
	n := newRecordedNode(t)
	n.learnParams()
	server, _ := newHandler(t, n, rpc.Options{})
	ask := func(token string) http.Header {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(fmt.Sprintf(balance[0], "1"))))(t)
		r.Header.Set("X-Session", token)
		resp := expect.Value(http.DefaultClient.Do(r))(t)
		resp.Body.Close()
		return resp.Header
	}
	told := ask("1").Get("X-Session")
	height, hash, _ := strings.Cut(told, ".")
	if height != "746" || len(hash) != 12 {
		t.Fatalf("session %q", told)
	}
	for token, reset := range map[string]string{told: "", "746": "", height + ".000000000000": "true"} {
		if h := ask(token); h.Get("X-Session") != told || h.Get("X-Session-Reset") != reset {
			t.Errorf("in session %s: %v", token, h)
		}
	}
}

// A node refuses parameters that it cannot read by another code over a socket.
func TestParametersThatCannotBeReadAreAnInternalErrorOverASocket(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	const why = `"data":"error converting json params to arguments: invalid character 'a' looking for beginning of value"}`
	if _, body := post(t, server.URL, `{"id":1,"method":"block","params":{"height":"abc"}}`); body != `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params",`+why+"}" {
		t.Errorf("by POST: %s", body)
	}
	handler := server.Config.Handler.(*rpc.Handler)
	answer := handler.Call(httptest.NewRequest(http.MethodGet, "/websocket", nil), "block", json.RawMessage(`{"height":"abc"}`))
	expect.Equal(t, string(answer.Member), `"error":{"code":-32603,"message":"Internal error",`+why, "answer over a socket")
}

func TestValueOutsideStateIsNotCached(t *testing.T) {
	n := newRecordedNode(t)
	n.learnParams()
	outside := map[string]dialect.Row{"/cosmos.staking.v1beta1.Query/Params": {Class: blocks.Never}}
	server, _ := newHandler(t, n, rpc.Options{State: state.Options{Rows: outside}})
	for range 3 {
		if _, body := post(t, server.URL, fmt.Sprintf(balance[1], "1")); !strings.Contains(body, `"value":"Cg=="`) {
			t.Errorf("answer %s, want the node's", body)
		}
	}
	expect.Equal(t, n.times("abci_query"), 3, "node requests")
}
