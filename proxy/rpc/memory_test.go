package rpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestResponsesWithoutMemoryAreRefused(t *testing.T) {
	const free = 32 << 10
	n := newRecordedNode(t)
	n.recordParams()
	n.calls["genesis"] = `"result":"` + strings.Repeat("x", 40<<10) + `"`
	c := expect.Value(cache.New(cache.Options{MemoryBytes: 4 << 20}))(t)
	defer c.Close()
	server, _ := newHandlerWith(t, c, n, rpc.Options{})
	genesis := `{"jsonrpc":"2.0","id":7,"method":"genesis","params":{}}`
	batch := func(n int) string {
		return "[" + strings.Repeat(fmt.Sprintf(paramsCalls[0], "7")+",", n-1) + fmt.Sprintf(paramsCalls[0], "7") + "]"
	}
	want := func(what, body string, status int, text string) {
		t.Helper()
		resp, got := post(t, server.URL, body)
		if resp.StatusCode != status || !strings.Contains(got, text) {
			t.Errorf("%s = %d %.300s, want %d with %s", what, resp.StatusCode, got, status, text)
		}
	}
	want("a long response", genesis, http.StatusOK, `"result":"xxx`)
	want("a batch", batch(100), http.StatusOK, `"id":7,"result":{"response"`)
	expect.EventuallyEqual(t, "release of the first responses", c.Account().Used, 0)
	used := c.Account().Limit()/8*7 - free
	if !c.Account().Reserve(account.Upstream, used) {
		t.Fatal("Reserve = false, want true")
	}
	want("a long response without memory", genesis, http.StatusServiceUnavailable, `"id":7,"error":{"code":-32000,"message":"Server error","data":"too many responses have not been read`)
	want("a batch without memory", batch(100), http.StatusServiceUnavailable, `"error":{"code":-32000,"message":"Server error","data":"too little memory is free for this request`)
	want("a batch with memory for one call at a time", batch(20), http.StatusOK, `"id":7,"result":{"response"`)
	expect.EventuallyEqual(t, "release of all responses", c.Account().Used, used)
}

func TestBatchStopsReadingWhenItsAnswersExceedMemory(t *testing.T) {
	n := newRecordedNode(t)
	calls := make([]string, rpc.MaxBatch)
	for i := range calls {
		n.calls[fmt.Sprintf(`block_results{"height":"%d"}`, i+1)] = `"result":"` + strings.Repeat("x", 64<<10) + `"`
		calls[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"block_results","params":{"height":"%d"}}`, i+1, i+1)
	}
	c := expect.Value(cache.New(cache.Options{MemoryBytes: 4 << 20}))(t) // room for 28 answers
	defer c.Close()
	server, _ := newHandlerWith(t, c, n, rpc.Options{})
	resp, _ := post(t, server.URL, "["+strings.Join(calls, ",")+"]")
	if read := len(n.order); resp.StatusCode != http.StatusServiceUnavailable || read > 60 {
		t.Errorf("batch of %d large answers: status = %d after %d reads, want 503 after at most 60", rpc.MaxBatch, resp.StatusCode, read)
	}
	resp, text := post(t, server.URL, "["+strings.Join(calls[:20], ",")+"]")
	var answers []struct {
		ID     int
		Result string
	}
	expect.NoError(t, json.Unmarshal([]byte(text), &answers))
	for i, a := range answers {
		if a.ID != i+1 || len(a.Result) != 64<<10 {
			t.Errorf("answer %d has id %d and %d bytes, want id %d and 65536 bytes", i, a.ID, len(a.Result), i+1)
		}
	}
	expect.Equal(t, len(answers), 20, "answers with status %d", resp.StatusCode)
	expect.EventuallyEqual(t, "release of all answers", c.Account().Used, 0)
}

func TestBroadcastWhoseAnswerExceedsMemoryIsNotRefused(t *testing.T) {
	const hash = "tx?hash=0x01BA4719C80B6FE911B091A7C05124B64EEECE964E09C058EF8F9805DACA546B" // of 0a
	const sync = `{"id":1,"method":"broadcast_tx_sync","params":{"tx":"Cg=="}}`
	const commit = `{"id":2,"method":"broadcast_tx_commit","params":{"tx":"Cg=="}}`
	const genesis = `{"id":3,"method":"genesis","params":{}}`
	n := newRecordedNode(t)
	n.calls[`broadcast_tx_sync{"tx":"Cg=="}`] = `"result":{"hash":"accepted"}`
	n.calls[`broadcast_tx_commit{"tx":"Cg=="}`] = `"result":"` + strings.Repeat("x", 40<<10) + `"`
	n.calls["genesis"] = `"result":"` + strings.Repeat("x", 40<<10) + `"`
	c := expect.Value(cache.New(cache.Options{MemoryBytes: 4 << 20}))(t)
	defer c.Close()
	server, _ := newHandlerWith(t, c, n, rpc.Options{})
	used := c.Account().Limit()/8*7 - 32<<10
	expect.Equal(t, c.Account().Reserve(account.Upstream, used), true, "Reserve")
	for body, want := range map[string][]string{
		commit:                           {`"id":2,"error":{"code":-32000,`, hash},
		"[" + sync + "," + genesis + "]": {`"id":1,"result":{"hash":"accepted"}`, `"id":3,"error":{"code":-32000,"message":"Server error","data":"too many responses have not been read`},
		"[" + genesis + "," + sync + "]": {`"id":1,"error":{"code":-32000,"message":"Server error","data":"too many responses have not been read`}, // it is not sent
		"[" + commit + "," + sync + "]":  {`"id":2,"error":{"code":-32000,`, hash, `"id":1,"error":{"code":-32000,"message":"Server error","data":"too many responses have not been read`},
	} {
		_, answer := post(t, server.URL, body)
		for _, part := range want {
			expect.Contains(t, answer, part, "answer to %s", body)
		}
	}
	expect.Equal(t, n.countCalls("broadcast_tx_sync"), 1, "transactions sent by broadcast_tx_sync")
	socket := server.Config.Handler.(*rpc.Handler).Call(httptest.NewRequest(http.MethodGet, "/websocket", nil), "broadcast_tx_commit", json.RawMessage(`{"tx":"Cg=="}`))
	expect.Contains(t, string(socket.Member), hash, "answer over a socket")
	expect.EventuallyEqual(t, "release of all responses", c.Account().Used, used)
}

func TestLongParametersAndBatchesAreNotDecoded(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandlerWith(t, expect.Value(cache.New(cache.Options{}))(t), n, rpc.Options{})
	var members strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&members, `,"%d":0`, i)
	}
	for name, tt := range map[string]struct {
		body string
		most uint64 // MiB; the simulated node decodes parameters, too
	}{
		"list":  {`{"jsonrpc":"2.0","id":1,"method":"block","params":[` + strings.Repeat("0,", 1<<20) + "0]}", 200},
		"wait":  {`{"jsonrpc":"2.0","id":1,"method":"tx","params":{"wait":1` + members.String() + "}}", 40},
		"batch": {"[" + strings.Repeat(`{"x":0},`, 500_000) + `{"x":0}]`, 100},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = post(t, server.URL, tt.body)
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > tt.most {
			t.Errorf("memory for a %s of %d KiB = %d MiB, want at most %d", name, len(tt.body)>>10, used, tt.most)
		}
	}
}

// growingNodes answer calls of abci_query at the newest block.
type growingNodes struct {
	blocks.Nodes
	height atomic.Int64
}

func (n *growingNodes) ChainID() string                     { return "test-1" }
func (n *growingNodes) Expected(node.Request) time.Duration { return 0 }
func (n *growingNodes) Replaced(int64, string) bool         { return false }
func (n *growingNodes) HashOf(int64) string                 { return "" }
func (n *growingNodes) Tip() node.Tip {
	return node.Tip{Known: true, Height: n.height.Load(), Interval: time.Minute, Since: time.Now()}
}

func (n *growingNodes) Fetch(context.Context, node.Request) (*node.Answer, error) {
	height := n.height.Load()
	return &node.Answer{Height: height, Body: state.AppendValue(nil, []byte("v"), height)}, nil
}

func TestCallReadAheadRetainsNoOtherCallOfItsBatch(t *testing.T) {
	n := &growingNodes{}
	c := expect.Value(cache.New(cache.Options{}))(t)
	server := newHandlerOf(t, n, prometheus.NewRegistry(), c, rpc.Options{})
	const call = `{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"/a.Query/B","data":"%s"}}`
	short := fmt.Sprintf(call, "01")
	batch := "[" + fmt.Sprintf(call, strings.Repeat("00", 1<<20)) + "," + short + "]"
	for n.height.Store(100); n.height.Load() <= 101; n.height.Add(1) {
		c.ReadAhead(t.Context(), ahead.Block{Height: n.height.Load()})
		before := expect.LiveHeap()
		_, answer := post(t, server.URL, batch)
		expect.Contains(t, answer, `"result":`, "answer")
		post(t, server.URL, short)
		if kept := expect.LiveHeap() - before; kept > 512<<10 {
			t.Errorf("memory that a batch retains at block %d = %d bytes, want at most 512 KiB", n.height.Load(), kept)
		}
	}
	expect.Equal(t, c.Inspect(t.Context(), cache.Query{Key: "state/a.Query/B?01"}, nil).Ahead, true, "whether the short call is read ahead")
	runtime.KeepAlive(batch)
}
