package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// evm is an execution client's JSON-RPC endpoint for a chain.
type evm struct {
	chain
	url     string
	latency time.Duration // of every request, however many calls it makes
	most    int64         // blocks eth_getLogs gives at once
	rate    *allowance    // of calls; nil for any number

	requests, calls, refusals atomic.Int64 // refused for the rate are not among them
	blocks, given             atomic.Int64 // given
}

// serve begins to answer, until the function that it returns is called.
func (e *evm) serve() (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return nil, err
	}
	e.url = "http://" + l.Addr().String()
	s := &http.Server{Handler: e, ReadHeaderTimeout: time.Second}
	go s.Serve(l) //nolint:errcheck // it ends when it is closed
	return func() { _ = s.Close() }, nil
}

// An rpcCall is one of a batch.
type rpcCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// ServeHTTP implements http.Handler.
func (e *evm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var calls []rpcCall
	if err := json.NewDecoder(r.Body).Decode(&calls); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !e.rate.take(len(calls)) {
		e.refusals.Add(1)
		http.Error(w, "too many calls", http.StatusTooManyRequests)
		return
	}
	time.Sleep(e.latency)
	e.requests.Add(1)
	e.calls.Add(int64(len(calls)))
	held := bodies.Get().(*[]byte)
	defer bodies.Put(held)
	body := (*held)[:0]
	for i, c := range calls {
		body = append(body, "[,"[min(i, 1)])
		body = append(append(append(body, `{"jsonrpc":"2.0","id":`...), c.ID...), ',')
		body = append(e.answer(body, c), '}')
	}
	body = append(body, ']')
	*held = body
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // who asked may have gone
}

// bodies are kept: those of 10,000 logs have a dozen megabytes.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// answer appends the result of a call, or its error.
func (e *evm) answer(b []byte, c rpcCall) []byte {
	switch c.Method {
	case "eth_chainId":
		return append(appendQuantity(append(b, `"result":"`...), story.ChainID), '"')
	case "eth_blockNumber":
		return append(appendQuantity(append(b, `"result":"`...), e.head), '"')
	case "eth_getBlockByNumber":
		var block blockNumber
		if err := readParam(c, &block); err != nil || int64(block) > e.head {
			return append(b, `"result":null`...)
		}
		return appendHeader(append(b, `"result":`...), int64(block))
	case "eth_getLogs":
		return e.getLogs(b, c)
	}
	return appendRefusal(b, -32601, "the method does not exist")
}

func (e *evm) getLogs(b []byte, c rpcCall) []byte {
	var filter struct{ FromBlock, ToBlock blockNumber }
	if err := readParam(c, &filter); err != nil {
		return appendRefusal(b, -32602, err.Error())
	}
	from, to := int64(filter.FromBlock), min(int64(filter.ToBlock), e.head)
	if to-from >= e.most {
		return appendRefusal(b, -32602, fmt.Sprintf("eth_getLogs is limited to a %d block range", e.most))
	}
	e.blocks.Add(to - from + 1)
	e.given.Add(e.until(to) - e.until(from-1))
	return e.appendLogs(append(b, `"result":`...), from, to)
}

func appendRefusal(b []byte, code int, message string) []byte {
	return fmt.Appendf(b, `"error":{"code":%d,"message":%q}`, code, message)
}

// blockNumber is a number as JSON-RPC writes it.
type blockNumber int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *blockNumber) UnmarshalText(text []byte) error {
	v, err := strconv.ParseInt(strings.TrimPrefix(string(text), "0x"), 16, 64)
	*n = blockNumber(v)
	return err
}

func readParam(c rpcCall, to any) error {
	if len(c.Params) == 0 {
		return errors.New("a parameter is missing")
	}
	return json.Unmarshal(c.Params[0], to)
}

// allowance lets so many calls a second pass, and as many at once.
type allowance struct {
	perSecond float64

	mu   sync.Mutex
	left float64
	at   time.Time
}

// take reports whether n may pass.
func (a *allowance) take(n int) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.left = min(a.left+now.Sub(a.at).Seconds()*a.perSecond, a.perSecond)
	a.at = now
	if a.left < float64(n) {
		return false
	}
	a.left -= float64(n)
	return true
}
