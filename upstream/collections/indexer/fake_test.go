package indexer_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// fakeEVM is an execution client that serves a history with the faults of real clients.
type fakeEVM struct {
	*httptest.Server
	*history

	mu       sync.Mutex
	faults   faults
	requests int
	calls    map[string]int // by method
	windows  []int64        // number of blocks of each answered eth_getLogs
}

type faults struct {
	endless      bool    // responses have no end
	maxRange     int64   // maximum range of eth_getLogs; 0 means no limit
	tooMuch      int     // index in refusals of the response to a larger range
	rate         float64 // share of requests that fail
	lag          int64   // blocks that the endpoint is behind
	laggingRate  float64 // share of requests that a lagging server answers; 0 means all
	pruned       int64   // earlier blocks have no state
	forgotten    int64   // earlier blocks have no logs
	chainID      int64   // returned instead of the history's
	maxCalls     int     // maximum calls per request; 0 means no limit
	callsMetered bool    // larger batches get status 429
	callsIgnored bool    // larger batches get no response
	callsUnnamed bool    // larger batches get an unspecific error code
	callsCut     bool    // of larger batches, the first maxCalls calls are answered
	spoiled      bool    // half of the responses have missing or wrong results
	forkFrom     int64   // first block whose hash differs; 0 means none
	forkLogs     bool    // blocks of the fork lack every second log
	forkRate     float64 // share of requests answered from the fork; 0 means all
	forkCalls    bool    // forkRate applies to calls
	dropsFrom    int64   // since this block, every third block has no logs; 0 means none
	lostUntil    int64   // blocks up to this one have no logs
	noBloom      bool    // headers have no blooms
	zeroBloom    bool    // the blooms of headers are empty
	wrongHeader  bool    // the hashes of headers differ from those in logs and child blocks
	drops        int     // lists of logs are empty: dropsRanges or dropsAll
	logTime      int64   // time in all logs, in seconds; 0 means the block's
	late         int     // number of eth_getLogs to which drops applies; 0 means all
	invents      bool    // the block falseBloom has the log invented
	ahead        int64   // blocks that the returned head is too high
	lies         int     // number of eth_getCode and of eth_call that find no contract
	every        int     // forkFrom and lies apply to one in this many requests; 0 means each
	listless     bool    // logs are not an array
	twice        bool    // each log occurs twice, in random order
	clash        bool    // a second log has the position of the first
	echoes       string  // body of responses with status
	status       int     // of all responses; 0 means no failure
	failures     int     // number of responses with status; 0 means all
	sense        int     // one in this many responses is valid; 0 means all
	way          int     // the kind of the invalid responses, see misbehave
}

// Values of faults.drops.
const (
	dropsRanges = iota + 1 // logs of ranges are missing, but not those by block hash
	dropsAll
)

// noResult is the way to answer each call with null. misbehave ignores it.
const noResult = 7

// refusals report that a range is too large.
var refusals = []func(w http.ResponseWriter) (code int, message string){
	func(http.ResponseWriter) (int, string) { return -32005, "query returned more than 10000 results" },
	func(http.ResponseWriter) (int, string) {
		return -32602, "eth_getLogs is limited to a 10 block range"
	},
	func(http.ResponseWriter) (int, string) { return -32000, "exceed maximum block range" },
	func(w http.ResponseWriter) (int, string) {
		http.Error(w, "request entity too large", http.StatusRequestEntityTooLarge)
		return 0, ""
	},
	func(w http.ResponseWriter) (int, string) {
		http.Error(w, `{"error":"block range too wide"}`, http.StatusBadRequest)
		return 0, ""
	},
}

func serveEVM(t testing.TB, h *history, f faults) *fakeEVM {
	e := &fakeEVM{history: h, faults: f, calls: map[string]int{}}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *fakeEVM) set(f faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
}

func (e *fakeEVM) called(method string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[method]
}

func (e *fakeEVM) windowSizes() []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.windows)
}

func (e *fakeEVM) requestCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests
}

// awaitRequests waits for more requests.
func (e *fakeEVM) awaitRequests(t *testing.T, more int) {
	t.Helper()
	before := e.requestCount()
	eventually(t, fmt.Sprintf("%d more requests", more), func() bool { return e.requestCount() >= before+more })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout waiting for %s", what)
		}
	}
}

type rpcCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type rpcAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

func (e *fakeEVM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	f := e.faults
	e.requests++
	requests := e.requests
	e.mu.Unlock()
	if f.status != 0 && (f.failures == 0 || requests <= f.failures) {
		http.Error(w, cmp.Or(f.echoes, "failed"), f.status)
		return
	}
	for f.endless {
		if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<10)); err != nil {
			return
		}
	}
	if f.every > 0 && requests%f.every != 0 {
		f.forkFrom, f.lies = 0, 0
	}
	if f.forkRate > 0 && !f.forkCalls && rand.Float64() >= f.forkRate {
		f.forkFrom = 0
	}
	invalid := f.sense > 0 && requests%f.sense != 0
	if rand.Float64() < f.rate && !misbehave(w, rand.IntN(8)) || invalid && !misbehave(w, f.way) {
		return
	}
	calls, batched, err := readCalls(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if f.maxCalls > 0 && len(calls) > f.maxCalls {
		if !f.callsCut {
			refuseCalls(w, f)
			return
		}
		calls = calls[:f.maxCalls]
	}
	head := e.head()
	if f.lag > 0 && (f.laggingRate == 0 || rand.Float64() < f.laggingRate) {
		head -= f.lag
	}
	head += f.ahead
	answers := make([]rpcAnswer, len(calls))
	for i, c := range calls {
		e.mu.Lock()
		e.calls[c.Method]++
		e.mu.Unlock()
		answers[i] = rpcAnswer{Version: "2.0", ID: c.ID}
		callFaults := f
		if f.forkCalls && rand.Float64() >= f.forkRate {
			callFaults.forkFrom = 0
		}
		if result, failure, done := e.answer(w, callFaults, head, c); done {
			return
		} else if failure != nil {
			answers[i].Error = failure
		} else if answers[i].Result = result; result == nil {
			answers[i].Result = json.RawMessage("null")
		}
	}
	for i := range answers {
		if invalid {
			answers[i].Result, answers[i].Error = json.RawMessage("null"), nil
		}
	}
	if f.spoiled && rand.IntN(2) == 0 {
		spoil(answers, calls, requests)
	}
	rand.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
	w.Header().Set("Content-Type", "application/json")
	if !batched {
		json.NewEncoder(w).Encode(answers[0])
		return
	}
	json.NewEncoder(w).Encode(answers)
}

// readCalls reads a batch or a single call.
func readCalls(body io.Reader) (calls []rpcCall, batched bool, err error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, false, err
	}
	if batched = bytes.HasPrefix(raw, []byte("[")); batched {
		err = json.Unmarshal(raw, &calls)
		return calls, true, err
	}
	calls = make([]rpcCall, 1)
	return calls, false, json.Unmarshal(raw, &calls[0])
}

// refuseCalls refuses a request with too many calls.
func refuseCalls(w http.ResponseWriter, f faults) {
	if f.callsIgnored {
		panic(http.ErrAbortHandler)
	}
	if f.callsMetered {
		http.Error(w, "too many calls at once", http.StatusTooManyRequests)
		return
	}
	if f.callsUnnamed {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"too much of it"}}`)
		return
	}
	if rand.IntN(2) == 0 { // as geth does
		fmt.Fprint(w, `[{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"batch too large"}}]`)
		return
	}
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}`)
}

// spoil replaces results: by the first answer, or those about state by null, or by nothing.
func spoil(answers []rpcAnswer, calls []rpcCall, way int) {
	for i, c := range calls {
		state := c.Method == "eth_getCode" || c.Method == "eth_call"
		switch way % 3 {
		case 0:
			answers[i] = answers[0]
		case 1:
			if state {
				answers[i].Result, answers[i].Error = json.RawMessage("null"), nil
			}
		case 2:
			if state {
				answers[i].Result, answers[i].Error = nil, nil
			}
		}
	}
}

// misbehave fails a request in one of seven ways. It returns true for any other way.
func misbehave(w http.ResponseWriter, way int) (pass bool) {
	switch way {
	case 0:
		w.Header().Set("Retry-After", "0")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case 1:
		http.Error(w, "bad gateway", http.StatusBadGateway)
	case 2:
		panic(http.ErrAbortHandler)
	case 3:
		fmt.Fprint(w, `[{"jsonrpc":"2.0","id":0,"resu`)
	case 4:
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	case 5:
		fmt.Fprint(w, `[]`)
	case 6:
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":429,"message":"compute units exceeded"}}`)
	default:
		return true
	}
	return false
}

func (e *fakeEVM) answer(w http.ResponseWriter, f faults, head int64, c rpcCall) (result any, failure *rpcError, done bool) {
	switch c.Method {
	case "eth_chainId":
		if f.chainID != 0 {
			return hexInt(f.chainID), nil, false
		}
		return hexInt(e.chainID), nil, false
	case "eth_blockNumber":
		return hexInt(head), nil, false
	case "eth_getBlockByNumber":
		if n := parseInt(text(c.Params[0])); n <= head-f.ahead {
			return e.header(f, n), nil, false
		}
		return nil, nil, false
	case "eth_getCode", "eth_call":
		if e.called(c.Method) <= f.lies {
			return "0x", nil, false
		}
	}
	switch c.Method {
	case "eth_getCode":
		return e.getCode(f, head, text(c.Params[0]), parseInt(text(c.Params[1])))
	case "eth_getLogs":
		return e.getLogs(w, f, head, c.Params[0])
	case "eth_call":
		var call struct{ To, Data string }
		json.Unmarshal(c.Params[0], &call)
		if at := text(c.Params[1]); at != "latest" && parseInt(at) > head {
			return nil, &rpcError{-32000, "header not found"}, false
		}
		return e.ethCall(call.To, call.Data)
	}
	return nil, &rpcError{-32601, "the method does not exist"}, false
}

func (e *fakeEVM) getCode(f faults, head int64, contract string, block int64) (any, *rpcError, bool) {
	if block > head {
		return nil, &rpcError{-32000, "header not found"}, false
	}
	if block < f.pruned {
		return nil, &rpcError{-32000, "missing trie node 9f3c (path ) state is not available"}, false
	}
	if begins, ok := e.deployed[contract]; ok && block >= begins {
		return "0x6080", nil, false
	}
	return "0x", nil, false
}

func (e *fakeEVM) getLogs(w http.ResponseWriter, f faults, head int64, filter json.RawMessage) (any, *rpcError, bool) {
	var wanted struct {
		FromBlock, ToBlock string
		BlockHash          string
		Address            []string
		Topics             [][]string
	}
	json.Unmarshal(filter, &wanted)
	wanted.Topics = append(wanted.Topics, nil)
	from, to := parseInt(wanted.FromBlock), parseInt(wanted.ToBlock)
	if wanted.BlockHash != "" {
		if from = e.number(f, wanted.BlockHash, head); from < 0 {
			return nil, &rpcError{-32000, "unknown block"}, false
		}
		to = from
	}
	if f.maxRange > 0 && to-from+1 > f.maxRange {
		code, message := refusals[f.tooMuch%len(refusals)](w)
		return nil, &rpcError{code, message}, code == 0
	}
	if f.listless {
		return map[string]any{}, nil, false
	}
	if from < f.forgotten {
		return nil, &rpcError{4444, "pruned history unavailable"}, false
	}
	e.mu.Lock()
	e.windows = append(e.windows, to-from+1)
	e.mu.Unlock()
	if f.late > 0 && e.called("eth_getLogs") > f.late {
		f.drops = 0
	}
	if f.drops == dropsAll || f.drops == dropsRanges && wanted.BlockHash == "" {
		return []string{}, nil, false
	}
	logs := e.logs(f, from, min(to, head-f.ahead), wanted.Address, wanted.Topics[0])
	if f.dropsFrom > 0 {
		logs = slices.DeleteFunc(logs, func(l map[string]any) bool {
			n := parseInt(l["blockNumber"].(string))
			return n >= f.dropsFrom && n%3 == 0
		})
	}
	logs = slices.DeleteFunc(logs, func(l map[string]any) bool { return parseInt(l["blockNumber"].(string)) <= f.lostUntil })
	if f.twice {
		logs = append(logs, logs...)
		rand.Shuffle(len(logs), func(i, j int) { logs[i], logs[j] = logs[j], logs[i] })
	}
	if f.clash && len(logs) > 0 {
		other := maps.Clone(logs[0])
		other["data"] = "0x" + strings.Repeat(word("7"), 10)
		logs = append(logs, other)
	}
	return logs, nil, false
}

func (e *fakeEVM) ethCall(to, data string) (any, *rpcError, bool) {
	e.history.mu.Lock()
	defer e.history.mu.Unlock()
	if data == "0xfc0c546a" {
		collection, ok := e.owners[to]
		if !ok {
			return "0x", nil, false // no contract there
		}
		return "0x" + word("5ea") + word(collection[2:]) + word("7"), nil, false
	}
	target, ok := e.targets[strings.TrimPrefix(data, "0x564a565d")]
	if !ok {
		return nil, &rpcError{3, "execution reverted: no such dispute"}, false
	}
	return "0x" + word(target[2:]) + strings.Repeat(word("1"), 9), nil, false
}

func text(raw json.RawMessage) (s string) {
	json.Unmarshal(raw, &s)
	return s
}

func hexInt(n int64) string { return "0x" + strconv.FormatInt(n, 16) }

func parseInt(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(s, "0x"), 16, 64)
	return n
}

// word pads hex digits to a word of the ABI.
func word(digits string) string { return strings.Repeat("0", 64-len(digits)) + digits }

func address(kind byte, n int) string {
	a := ledger.Address{0: kind, 18: byte(n >> 8), 19: byte(n)}
	return a.String()
}
