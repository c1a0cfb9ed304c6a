package rpc_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// paramsCalls are two encodings of one call that reads state. The id is missing.
var paramsCalls = [2]string{
	`{"jsonrpc":"2.0","id":%s,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params","data":"","prove":false}}`,
	`{"id":%s,"method":"abci_query","params":{"data":"","height":"0","path":"/cosmos.staking.v1beta1.Query/Params"}}`,
}

func get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	resp := expect.Value(http.Get(url))(t)
	defer resp.Body.Close()
	return resp, string(expect.Value(io.ReadAll(resp.Body))(t))
}

func post(t testing.TB, url, body string) (*http.Response, string) {
	t.Helper()
	resp := expect.Value(http.Post(url, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	return resp, string(expect.Value(io.ReadAll(resp.Body))(t))
}

// recordParams sets the node's answer to paramsCalls, at its newest block.
func (n *recordedNode) recordParams() {
	n.setAnswer(`abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`,
		`"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"746","codespace":""}}`)
}

func TestEquivalentCallsShareOneRead(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	server, _ := newHandler(t, n, rpc.Options{})
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			id := fmt.Sprint(1000 + i)
			resp, body := post(t, server.URL, fmt.Sprintf(paramsCalls[i%2], id))
			if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":`+id+`,"result":{"response":{"code":0,`) {
				t.Errorf("response to call %s = %s, want its id and the value", id, body)
			}
			expect.Equal(t, resp.Header.Get("X-Block-Height"), "746", "X-Block-Height of call %s", id)
			expect.Equal(t, resp.Header.Get("Cache-Control"), "no-store", "Cache-Control of call %s", id)
		})
	}
	clients.Wait()
	expect.Equal(t, n.countCalls("abci_query"), 1, "node requests")
}

func TestCallInEachFormSharesOneRead(t *testing.T) {
	n := newRecordedNode(t)
	n.setAnswer(`abci_query{"data":"4142","height":"14","path":"/a.b.Query/C"}`, `"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"14","codespace":""}}`)
	n.setAnswer(`tx{"hash":"QUI="}`, `"result":{"hash":"4142"}`)
	server, _ := newHandler(t, n, rpc.Options{})
	for _, form := range []string{`data="AB"`, `data=0x4142`, `data=0X4142`, `data="\u0041B"`, `path=0x2f612e622e51756572792f43&data="AB"&height="14"`} {
		query := url.Values{"path": {`"/a.b.Query/C"`}, "height": {"14"}}
		for name, values := range expect.Value(url.ParseQuery(form))(t) {
			query[name] = values
		}
		resp, body := get(t, server.URL+"/abci_query?"+query.Encode())
		expect.Response(t, form, resp.StatusCode, body, http.StatusOK, `"value":"Cg=="`)
	}
	_, body := post(t, server.URL, `{"id":1,"method":"abci_query","params":{"path":"/a.b.Query/C","data":"4142","height":"\u00314"}}`)
	expect.Contains(t, body, `"value":"Cg=="`, "answer by POST")
	expect.Equal(t, n.countCalls("abci_query"), 1, "node requests of abci_query")
	for _, hash := range []string{`"AB"`, "0x4142"} {
		resp, body := get(t, server.URL+"/tx?hash="+url.QueryEscape(hash))
		expect.Response(t, hash, resp.StatusCode, body, http.StatusOK, `"hash":"4142"`)
	}
	expect.Equal(t, n.countCalls("tx"), 1, "node requests of tx")
}

func TestQueryOfURIComesBeforeItsForm(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	for target, want := range map[string]string{"/header?height=5": `"height":"5"`, "/header?height=": `"height":"746"`, "/header": `"height":"746"`} {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+target, strings.NewReader("height=746")))(t)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp := expect.Value(http.DefaultClient.Do(r))(t)
		body := string(expect.Value(io.ReadAll(resp.Body))(t))
		resp.Body.Close()
		expect.Contains(t, body, want, "header of %s", target)
	}
}

func TestProofAtNewestBlockIsReadOnceForAllFormsOfItsHeight(t *testing.T) {
	n := newRecordedNode(t)
	n.setAnswer(`abci_query{"data":"02","path":"/store/bank/key","prove":true}`, `"result":{"response":{"code":0,"value":"Cg==","height":"746"}}`)
	server, _ := newHandler(t, n, rpc.Options{})
	for _, height := range []string{"", `,"height":"0"`} {
		_, body := post(t, server.URL, `{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"/store/bank/key","data":"02","prove":true`+height+`}}`)
		expect.Contains(t, body, `"value":"Cg=="`, "with height %q", height)
	}
	expect.Equal(t, n.countCalls("abci_query"), 1, "node requests")
}

func TestAnswersHaveTheNumericIDsOfTheirCalls(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	server, _ := newHandler(t, n, rpc.Options{})
	for _, id := range []string{"1.5", "9223372036854775808", "1e30", "-0"} {
		body := fmt.Sprintf(paramsCalls[0], id)
		want := `{"jsonrpc":"2.0","id":` + id + `,"result":{`
		if _, got := post(t, server.URL, body); !strings.HasPrefix(got, want) {
			t.Errorf("response to call %s = %s, want %s", id, got, want)
		}
		if _, got := post(t, server.URL, "["+body+","+body+"]"); strings.Count(got, want) != 2 {
			t.Errorf("response to a batch of %s = %s, want two of %s", id, got, want)
		}
	}
}

func TestTooLongBatchIsRefusedAsAWhole(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	for calls, want := range map[int]int{rpc.MaxBatch: http.StatusOK, rpc.MaxBatch + 1: http.StatusInternalServerError} {
		resp, body := post(t, server.URL, "["+strings.Repeat(`{"id":1,"method":"health"},`, calls-1)+`{"id":"b","method":"health"}]`)
		expect.Equal(t, resp.StatusCode, want, "status of a batch of %d calls (%s)", calls, body)
		expect.Equal(t, strings.Contains(body, `"code":-32600`), want != http.StatusOK, "error of a batch of %d calls (%s)", calls, body)
	}
}

// blockQueries makes calls of abci_query wait until a number of them have arrived.
func (n *recordedNode) blockQueries(queries int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.missing, n.complete = queries, make(chan struct{})
}

func TestCallsOfBatchAreReadConcurrentlyAndAnsweredInOrder(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	n.blockQueries(20)
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
		t.Fatalf("response at block %q = %s (%v), want 20 answers at block 746", resp.Header.Get("X-Block-Height"), body, err)
	}
	for i, a := range answers {
		if a.ID != i || !strings.Contains(a.Error.Data, fmt.Sprintf(`"data":"%02X"`, i)) {
			t.Errorf("answer %d = id %d, %s; want that of call %d", i, a.ID, a.Error.Data, i)
		}
	}
}

// The second transaction of an account is valid only after the first.
func TestTransactionsOfBatchAreSentInOrder(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	var batch, want []string
	for i := range 20 {
		batch = append(batch, fmt.Sprintf(`{"id":%d,"method":"broadcast_tx_sync","params":{"tx":"AA%02d"}}`, i, i))
		want = append(want, fmt.Sprintf(`broadcast_tx_sync{"tx":"AA%02d"}`, i))
	}
	post(t, server.URL, "["+strings.Join(batch, ",")+"]")
	expect.NoDiff(t, n.callsOf("broadcast_tx_sync"), want, "requests to the node")
}

// A node names a block some milliseconds before it can read it.
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
		t.Errorf("status = %s\nwant %s", body, want)
	}
}

func TestStatusIsValidIfTheNodeOmitsFields(t *testing.T) {
	n := newRecordedNode(t)
	n.calls["status"] = `"result":{"sync_info":{"latest_block_height":"747","latest_app_hash":"AA","catching_up":false}}`
	n.calls[`blockchain{"maxHeight":"746","minHeight":"746"}`] = `"result":{"block_metas":[{"header":{"height":"746","time":"2026-11-22T13:14:45Z"}}]}`
	server, _ := newHandler(t, n, rpc.Options{})
	const want = `{"jsonrpc":"2.0","id":1,"result":{"sync_info":{"latest_block_height":"746","latest_app_hash":"AA","catching_up":false}}}`
	if _, body := post(t, server.URL, `{"jsonrpc":"2.0","id":1,"method":"status"}`); body != want {
		t.Errorf("status = %s\nwant %s", body, want)
	}
}

func TestTransactionIsSentToOneNodeOnce(t *testing.T) {
	n := newRecordedNode(t)
	server, metrics := newHandler(t, n, rpc.Options{})
	n.silence()
	resp, body := post(t, server.URL, `{"jsonrpc":"2.0","id":7,"method":"broadcast_tx_sync","params":{"tx":"Cg=="}}`)
	expect.Response(t, "broadcast_tx_sync", resp.StatusCode, body, http.StatusOK, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,`)
	expect.Equal(t, n.countCalls("broadcast_tx_sync"), 1, "node requests")
	server.Close() // waits until the request is counted
	expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "rpc broadcast_tx_sync", "502", "server"), 1, "requests counted as failed")
}

func TestBroadcastWithoutReplyGetsItsHash(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	n.silence()
	const hash = "tx?hash=0x01BA4719C80B6FE911B091A7C05124B64EEECE964E09C058EF8F9805DACA546B" // of 0a
	handler := server.Config.Handler.(*rpc.Handler)
	for _, method := range []string{"broadcast_tx_sync", "broadcast_tx_async", "broadcast_tx_commit"} {
		call := `{"id":7,"method":"` + method + `","params":{"tx":"Cg=="}}`
		resp, body := post(t, server.URL, call)
		expect.Response(t, method, resp.StatusCode, body, http.StatusOK, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,`, hash)
		resp, body = get(t, server.URL+"/"+method+"?tx=0x0a")
		expect.Response(t, method+" by URI", resp.StatusCode, body, http.StatusInternalServerError, hash)
		_, body = post(t, server.URL, "["+call+","+call+"]")
		expect.Equal(t, strings.Count(body, hash), 2, "hashes in %s", body)
		a := handler.Call(httptest.NewRequest(http.MethodGet, "/websocket", nil), method, json.RawMessage(`{"tx":"Cg=="}`))
		expect.Contains(t, string(a.Member), hash, "%s over a socket", method)
	}
	resp, body := post(t, server.URL, `{"id":7,"method":"check_tx","params":{"tx":"Cg=="}}`)
	expect.Response(t, "check_tx, which sends nothing to the mempool", resp.StatusCode, body, http.StatusBadGateway, "the chain node cannot be reached")
	n.rpc.Close()
	resp, body = post(t, server.URL, `{"id":7,"method":"broadcast_tx_sync","params":{"tx":"Cg=="}}`)
	expect.Response(t, "a broadcast that was not sent", resp.StatusCode, body, http.StatusBadGateway, `"data":"the chain node cannot be reached"`)
}

func TestBroadcastThatAGatewayLosesGetsItsHash(t *testing.T) {
	n := newRecordedNode(t)
	n.unread[`broadcast_tx_sync{"tx":"Cg=="}`] = exchange{Status: http.StatusGatewayTimeout, Answer: `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"timeout"}}`}
	server, _ := newHandler(t, n, rpc.Options{})
	resp, body := post(t, server.URL, `{"id":7,"method":"broadcast_tx_sync","params":{"tx":"Cg=="}}`)
	expect.Response(t, "broadcast_tx_sync", resp.StatusCode, body, http.StatusOK, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,`, "tx?hash=0x01BA4719C80B6FE911B091A7C05124B64EEECE964E09C058EF8F9805DACA546B")
}

func TestFailedCallOfBatchIsLogged(t *testing.T) {
	n := newRecordedNode(t)
	log := new(logtest.Log)
	server, _ := newHandler(t, n, rpc.Options{}, func(o *web.Options) {
		o.Record.AccessLog, o.Logger = log, slog.New(slog.NewTextHandler(io.Discard, nil))
	})
	n.silence()
	resp, body := post(t, server.URL, `[{"jsonrpc":"2.0","id":1,"method":"health","params":{}},{"jsonrpc":"2.0","id":2,"method":"block","params":{"height":"14"}}]`)
	expect.Response(t, "batch", resp.StatusCode, body, http.StatusOK, `"id":2,"error":{"code":-32000,`)
	server.Close() // waits until the request is logged
	expect.Contains(t, log.String(), `"error":`, "line of the access log")
}

func TestBodyWithoutCallCountsAsInputError(t *testing.T) {
	server, metrics := newHandler(t, newRecordedNode(t), rpc.Options{})
	for _, body := range []string{`{nope`, `{"id":1,"method":"block"}`} {
		resp, answer := post(t, server.URL, body)
		expect.Response(t, body, resp.StatusCode, answer, http.StatusInternalServerError)
	}
	server.Close() // waits until the requests are counted
	expect.Equal(t, expect.Metric(t, metrics, "tipcache_proxy_requests_total", "500", "input"), 2, "requests counted as the input's fault")
}

func TestCachedBlockIsServedWhileNodeIsDown(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	const call = `{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":"14"}}`
	_, before := post(t, server.URL, call)
	n.silence()
	resp, after := post(t, server.URL, call)
	if after != before || resp.StatusCode != http.StatusOK || resp.Header.Get("X-Block-Height") != "" {
		t.Errorf("response = %d at block %q, %.200s; want 200 without a block, %.200s", resp.StatusCode, resp.Header.Get("X-Block-Height"), after, before)
	}
}

// A node closes its databases before its RPC.
func TestAnswerOfStoppingNodeIsIgnored(t *testing.T) {
	const failed, read = `"error":{"code":-32603,"message":"Internal error","data":"%s"}`, `"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"%s","codespace":""}}`
	query := func(code, log, codespace string) string {
		return `"result":{"response":{"code":` + code + `,"log":"` + log + `","info":"","index":"0","key":null,"value":null,"proofOps":null,"height":"0","codespace":"` + codespace + `"}}`
	}
	for _, tt := range []struct{ method, params, stopping, later string }{
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
			n.setAnswer(tt.method+tt.params, tt.stopping)
			server, _ := newHandler(t, n, rpc.Options{})
			call := `{"id":7,"method":"` + tt.method + `","params":` + cmp.Or(tt.params, "{}") + `}`
			resp, body := post(t, server.URL, call)
			expect.Response(t, "call while the node stops", resp.StatusCode, body, http.StatusBadGateway, "-32000")
			n.setAnswer(tt.method+tt.params, tt.later)
			_, body = post(t, server.URL, call)
			expect.Equal(t, body, `{"jsonrpc":"2.0","id":7,`+tt.later+"}", "response after the node started again")
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

// Each body gets a JSON response, or an empty one if it is a notification.
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
			t.Errorf("response to %q = %q, want JSON", body, answer)
		}
	})
}

func TestResultWithMoreThanAValueIsPassedOn(t *testing.T) {
	n := newRecordedNode(t)
	const result = `"result":{"response":{"code":0,"log":"text","info":"","index":"0","key":null,"value":"Cg==","proofOps":null,"height":"746","codespace":""}}`
	n.setAnswer(`abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`, result)
	server, _ := newHandler(t, n, rpc.Options{})
	for range 2 {
		_, body := post(t, server.URL, fmt.Sprintf(paramsCalls[0], "1"))
		expect.Equal(t, body, `{"jsonrpc":"2.0","id":1,`+result+`}`, "response")
	}
	expect.Equal(t, n.countCalls("abci_query"), 1, "node requests")
}

func TestValidatorOfValueIncludesBlock(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	n.calls[`abci_query{"height":"14","path":"/cosmos.staking.v1beta1.Query/Params"}`] = strings.Replace(
		n.calls[`abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`], "746", "14", 1)
	server, _ := newHandler(t, n, rpc.Options{})
	var tags []string
	for _, height := range []string{"14", "746"} {
		resp, _ := get(t, server.URL+`/abci_query?path="/cosmos.staking.v1beta1.Query/Params"&height=`+height)
		tags = append(tags, resp.Header.Get("ETag"))
	}
	if tags[0] == tags[1] || tags[0] == "" {
		t.Errorf("ETags of a value at two blocks = %q, want different ones", tags)
	}
}

func TestCallsContinueSession(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	server, _ := newHandler(t, n, rpc.Options{})
	call := func(token string) http.Header {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(fmt.Sprintf(paramsCalls[0], "1"))))(t)
		r.Header.Set("X-Session", token)
		resp := expect.Value(http.DefaultClient.Do(r))(t)
		resp.Body.Close()
		return resp.Header
	}
	session := call("1").Get("X-Session")
	height, hash, _ := strings.Cut(session, ".")
	if height != "746" || len(hash) != 12 {
		t.Fatalf("X-Session = %q, want height 746 and a hash of 12 digits", session)
	}
	for token, reset := range map[string]string{session: "", "746": "", height + ".000000000000": "true"} {
		h := call(token)
		expect.Equal(t, h.Get("X-Session"), session, "X-Session after %s", token)
		expect.Equal(t, h.Get("X-Session-Reset"), reset, "X-Session-Reset after %s", token)
	}
}

func TestAnswersSetTheSessionCookie(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	server, _ := newHandler(t, n, rpc.Options{}, func(o *web.Options) { o.SessionCookie = true })
	call := fmt.Sprintf(paramsCalls[0], "1")
	for name, tt := range map[string]struct{ method, path, body, control string }{
		"a call":  {http.MethodPost, "/", call, "no-store"},
		"a batch": {http.MethodPost, "/", "[" + call + "," + fmt.Sprintf(paramsCalls[0], "2") + "]", "no-store"},
		"a URI":   {http.MethodGet, "/abci_query?path=%22/cosmos.staking.v1beta1.Query/Params%22", "", "private, no-cache"},
	} {
		t.Run(name, func(t *testing.T) {
			r := expect.Value(http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body)))(t)
			resp := expect.Value(http.DefaultClient.Do(r))(t)
			resp.Body.Close()
			if got := resp.Header.Get("Set-Cookie"); !strings.HasPrefix(got, "tipcache-session-") || !strings.Contains(got, "=746.") {
				t.Errorf("Set-Cookie = %q, want a session at block 746", got)
			}
			expect.Equal(t, resp.Header.Get("Cache-Control"), tt.control, "Cache-Control")
		})
	}
}

// A node's error for parameters that it cannot read has another code over a socket.
func TestUnreadableParametersAreInternalErrorOverSocket(t *testing.T) {
	server, _ := newHandler(t, newRecordedNode(t), rpc.Options{})
	const why = `"data":"error converting json params to arguments: invalid character 'a' looking for beginning of value"}`
	_, body := post(t, server.URL, `{"id":1,"method":"block","params":{"height":"abc"}}`)
	expect.Equal(t, body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params",`+why+"}", "response to a POST")
	handler := server.Config.Handler.(*rpc.Handler)
	answer := handler.Call(httptest.NewRequest(http.MethodGet, "/websocket", nil), "block", json.RawMessage(`{"height":"abc"}`))
	expect.Equal(t, string(answer.Member), `"error":{"code":-32603,"message":"Internal error",`+why, "answer over a socket")
}

func TestValueOutsideStateIsNotCached(t *testing.T) {
	n := newRecordedNode(t)
	n.recordParams()
	outside := map[string]dialect.Row{"/cosmos.staking.v1beta1.Query/Params": {Class: blocks.Never}}
	server, _ := newHandler(t, n, rpc.Options{State: state.Options{Rows: outside}})
	for range 3 {
		_, body := post(t, server.URL, fmt.Sprintf(paramsCalls[1], "1"))
		expect.Contains(t, body, `"value":"Cg=="`, "response")
	}
	expect.Equal(t, n.countCalls("abci_query"), 3, "node requests")
}

func TestUncachedAnswerBelowTheRequiredBlockIsRefused(t *testing.T) {
	n := newRecordedNode(t)
	n.setAnswer(`abci_query{"path":"/custom/x"}`, `"result":{"response":{"code":0,"value":"Cg==","height":"745"}}`)
	server, _ := newHandler(t, n, rpc.Options{})
	for height, want := range map[string]string{"745": `"value":"Cg=="`, "746": "the chain node does not have block 746 yet"} {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{"id":1,"method":"abci_query","params":{"path":"/custom/x"}}`)))(t)
		r.Header.Set("X-Min-Block-Height", height)
		resp := expect.Value(http.DefaultClient.Do(r))(t)
		expect.Contains(t, string(expect.Value(io.ReadAll(resp.Body))(t)), want, "answer at block 745 with a minimum height of %s", height)
		_ = resp.Body.Close()
	}
}
