package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream/expect"
)

// An sdkRefusal is what an SDK node answers by REST, "" for a value.
type sdkRefusal struct {
	status int
	code   codes.Code
	text   string
}

const path = "/cosmos/x"

// newRefusingNode starts the REST server of an SDK node with the newest block 100. It refuses the requests for path, and counts
// them.
func newRefusingNode(t *testing.T, refusal sdkRefusal) (base string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		height := r.Header.Get(heightHeader)
		if height == "" {
			height = "100"
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		if r.URL.Path == path && refusal.status == http.StatusOK { // of a server in front of the node
			_, _ = fmt.Fprintf(w, `{"error":%q}`, refusal.text)
			return
		}
		h.Set(metadataHeader, height)
		h.Set(codecHeader, "application/grpc")
		switch r.URL.Path {
		case "/cosmos/base/tendermint/v1beta1/node_info":
			_, _ = io.WriteString(w, `{"default_node_info":{"network":"chain-1"}}`)
			return
		case path:
			if requests.Add(1); refusal.status != 0 {
				w.WriteHeader(refusal.status)
				if refusal.code == 0 { // of a server in front of the node
					return
				}
				fmt.Fprintf(w, `{"code":%d,"message":%s,"details":[]}`, refusal.code, strconv.Quote(refusal.text))
				return
			}
		}
		_, _ = io.WriteString(w, `{"value":1}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

var (
	value       = sdkRefusal{}
	tooLong     = sdkRefusal{429, codes.ResourceExhausted, "grpc: received message larger than max (35631763 vs. 10485760)"}
	outOfGas    = sdkRefusal{500, codes.Internal, "runtime error: out of gas in location: ReadFlat; gasWanted: 50000000, gasUsed: 50000123"}
	prunedBlock = sdkRefusal{500, codes.Unknown, "height 5 is not available, lowest height is 1000"}
	unheardOf   = sdkRefusal{500, codes.Unknown, "something new"}
	noSuchItem  = sdkRefusal{404, codes.NotFound, "account not found"}
	missingTx   = sdkRefusal{404, codes.NotFound, "tx not found: AB"} // the node may have pruned it, or not indexed it yet
	noMethod    = sdkRefusal{501, codes.Unimplemented, "Not Implemented"}
)

func TestRefusalThatSpeaksOfOneNodeIsNotTheStatesAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second sdkRefusal
		asked         int64 // requests to the second node
		height        int64
		status        int
		text          string
		unkept, brief bool
	}{
		"a message limit, and a value":              {tooLong, value, 1, 90, 200, "", false, false},
		"a gas limit, and a value":                  {outOfGas, value, 1, AtTip, 200, "", false, false},
		"a pruned block, and a value":               {prunedBlock, value, 1, AtTip, 200, "", false, false},
		"an unknown text, and a value":              {unheardOf, value, 1, 90, 200, "", false, false},
		"a missing method, and a value":             {noMethod, value, 1, AtTip, 200, "", false, false},
		"a canceled request, and a value":           {sdkRefusal{499, codes.Canceled, "x"}, value, 1, 90, 200, "", false, false},
		"a timeout, and a value":                    {sdkRefusal{504, codes.DeadlineExceeded, "x"}, value, 1, 90, 200, "", false, false},
		"a missing item":                            {noSuchItem, value, 0, 90, 404, noSuchItem.text, false, false},
		"a missing transaction, and a value":        {missingTx, value, 1, AtTip, 200, "", false, false},
		"the same missing transaction":              {missingTx, missingTx, 1, AtTip, 404, missingTx.text, false, false},
		"an error of a module":                      {sdkRefusal{500, codes.Unknown, "codespace staking code 3: validator does not exist"}, value, 0, 90, 500, "codespace staking code 3: validator does not exist", false, false},
		"out of gas in a module":                    {sdkRefusal{500, codes.Unknown, "codespace sdk code 11: out of gas: x"}, value, 1, 90, 200, "", false, false},
		"a message limit, and a missing item":       {tooLong, noSuchItem, 1, 90, 404, noSuchItem.text, false, false},
		"the same unknown text at a height":         {unheardOf, unheardOf, 1, 90, 500, unheardOf.text, false, true},
		"the same unknown text at the tip":          {unheardOf, unheardOf, 1, AtTip, 500, unheardOf.text, false, false},
		"the same limit at a height":                {tooLong, tooLong, 1, 90, 500, tooLong.text, false, true},
		"two limits":                                {tooLong, outOfGas, 1, 90, 500, tooLong.text, true, true},
		"two unknown texts":                         {unheardOf, sdkRefusal{500, codes.Unknown, "another"}, 1, AtTip, 500, unheardOf.text, true, false},
		"a message limit, and an unknown text":      {tooLong, unheardOf, 1, AtTip, 500, unheardOf.text, true, false},
		"the same missing method":                   {noMethod, noMethod, 1, AtTip, 501, noMethod.text, false, false},
		"a limit, and a node that does not respond": {tooLong, sdkRefusal{502, 0, ""}, 1, 90, 500, tooLong.text, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, _ := newRefusingNode(t, tt.first)
			second, asked := newRefusingNode(t, tt.second)
			p := runPool(t, Options{Dialect: Cosmos, Endpoints: []Endpoint{{REST: first}, {REST: second, Priority: 1}}, BlockInterval: time.Minute})
			waitForTip(t, p, 100)
			expect.EventuallyEqual(t, "both nodes", func() [2]int64 { h := p.Health(); return [...]int64{h[0].Height, h[1].Height} }, [...]int64{100, 100})
			a := expect.Value(p.Fetch(within(t, time.Minute), Request{Path: path, Height: tt.height}))(t)
			expect.NoDiff(t, []any{a.NodeStatus, a.Text, a.Unkept, a.Brief}, []any{tt.status, tt.text, tt.unkept, tt.brief}, "status, text, Unkept and Brief")
			expect.Equal(t, asked.Load(), tt.asked, "requests to the second node")
			for _, h := range p.Health() {
				expect.Equal(t, h.Breaker, "closed", "breaker of %s", h.Name)
			}
		})
	}
}

// All responses of an SDK node name a height or gRPC's content type. A gateway may report its own errors with 200.
func TestAnswerWithoutTheHeadersOfTheNodeIsAFailure(t *testing.T) {
	t.Parallel()
	first, _ := newRefusingNode(t, sdkRefusal{status: 200, text: "rate limit exceeded"})
	second, asked := newRefusingNode(t, value)
	both := []Endpoint{{REST: first}, {REST: second, Priority: 1}}
	for nodes := 1; nodes <= 2; nodes++ {
		p := runPool(t, Options{Dialect: Cosmos, Endpoints: both[:nodes], BlockInterval: time.Minute})
		waitForTip(t, p, 100)
		for _, unpinned := range []bool{false, true} {
			before := asked.Load()
			_, err := p.Fetch(within(t, time.Minute), Request{Path: path, Height: 90, Unpinned: unpinned, IsMethod: true})
			if isForeign := errors.Is(err, ErrForeign); isForeign != (nodes == 1) || asked.Load()-before != int64(nodes-1) {
				t.Errorf("Fetch from %d nodes, unpinned %t = %v after %d requests to the second one", nodes, unpinned, err, asked.Load()-before)
			}
		}
	}
}

func TestLimitOfTheOnlyNodeIsNotKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		refusal       sdkRefusal
		status        int
		unkept, brief bool
	}{{tooLong, 500, true, true}, {unheardOf, 500, false, true}, {noSuchItem, 404, false, false}, {missingTx, 404, false, true}} {
		base, _ := newRefusingNode(t, tt.refusal)
		p := runPool(t, Options{Dialect: Cosmos, Endpoints: []Endpoint{{REST: base}}, BlockInterval: time.Minute})
		waitForTip(t, p, 100)
		a := expect.Value(p.Fetch(within(t, time.Minute), Request{Path: path, Height: 90}))(t)
		expect.NoDiff(t, []any{a.NodeStatus, a.Text, a.Unkept, a.Brief}, []any{tt.status, tt.refusal.text, tt.unkept, tt.brief}, "status, text, Unkept and Brief")
	}
}

func TestRefusalsOfABCIQueryAreClassified(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		codespace string
		code      int64
		log       string
		want      Doubt
	}{
		{"sdk", 22, "rpc error: code = NotFound desc = account not found: key not found", certain},
		{"sdk", 18, "rpc error: code = InvalidArgument desc = invalid denom: : invalid request", certain},
		{"sdk", 18, "rpc error: code = ResourceExhausted desc = x: invalid request", ownLimit},
		{"sdk", 11, "out of gas in location: ReadFlat; gasUsed: 1: out of gas", ownLimit},
		{"sdk", 18, "something new: invalid request", unproven},
		{"sdk", 6, "group: not found: unknown request", unproven},
		{"sdk", 111222, "runtime error: index out of range: panic", unproven},
		{"undefined", 1, "something new", unproven},
		{"staking", 3, "validator does not exist", certain},
	} {
		var a Answer
		result, _ := json.Marshal(map[string]any{"response": map[string]any{"code": tt.code, "log": tt.log, "height": "90", "codespace": tt.codespace}})
		a.readState(result, 90)
		if a.Doubt != tt.want || a.Reason != Refused {
			t.Errorf("%s/%d %q: doubt = %d, reason %v; want %d, refused", tt.codespace, tt.code, tt.log, a.Doubt, a.Reason, tt.want)
		}
	}
}

func TestLimitByGRPCIsReadFromAnotherNode(t *testing.T) {
	t.Parallel()
	one, two, p := runTwoGRPC(t)
	for _, text := range []string{"grpc: trying to send message larger than max (9 vs. 4)", "trying to send message larger than max (9 vs. 4)", "grpc: received message larger than max (9 vs. 4)"} {
		for _, handled := range []bool{true, false} {
			if handled && text[:14] == "grpc: received" { // that is what the client's own limit looks like
				continue
			}
			one.refuse(codes.ResourceExhausted, text, handled)
			two.refuse(codes.ResourceExhausted, text, handled)
			a := expect.Value(invoke(t, p, aMethod, AtTip))(t)
			expect.NoDiff(t, []any{one.calls(aMethod), two.calls(aMethod), a.Unkept}, []any{1, 1, false}, "calls of each node, and Unkept, for %q, handled: %t", text, handled)
			two.change(func() { two.refusal = nil })
			a = expect.Value(invoke(t, p, aMethod, AtTip))(t)
			expect.Equal(t, a.Reason, OK, "reason of the answer of the other node")
			for _, n := range []*grpcNode{one, two} {
				n.change(func() { n.methods = nil })
			}
		}
	}
}

func TestTransactionIsReadByRPCFromTheNodeThatFindsIt(t *testing.T) {
	t.Parallel()
	without, with := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, without, with)
	waitForProbes(t, p)
	answer := func(n *fakeNode, member string) {
		n.change(func() {
			n.front, n.frontRPC = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id":1,`+member+`}`) }, true
		})
	}
	const missing = `"error":{"code":-32603,"message":"Internal error","data":"tx (AB) not found"}`
	read := func() *Answer {
		prefer(p, 0)
		return mustFetch(t, p, Request{Height: AtTip, Unpinned: true, Call: &Call{Method: "tx", Params: func(int64) json.RawMessage { return json.RawMessage(`{"hash":"qw=="}`) }}})
	}
	answer(without, missing)
	answer(with, `"result":{"hash":"AB"}`)
	expect.Equal(t, read().Reason, OK, "reason of the answer of the other node")
	answer(with, missing)
	if a := read(); a.Reason != NotFound || a.Unkept {
		t.Errorf("answer = %v, not kept: %t; want that both nodes do not find it, to keep", a.Reason, a.Unkept)
	}
}

func TestUnknownFailureOfStoryIsReadFromAnotherNode(t *testing.T) {
	t.Parallel()
	broken, well := newFakeNode(t, 100), newFakeNode(t, 100)
	broken.rest = func(w http.ResponseWriter, _ *http.Request) { refuse(w, "something new") }
	p := run(t, Options{BlockInterval: time.Minute}, broken, well)
	waitForProbes(t, p)
	for range 3 {
		prefer(p, 0)
		if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK || !isFrom(a, well) {
			t.Errorf("answer = %v %q, want that of the other node", a.Reason, a.Text)
		}
	}
	well.change(func() { well.rest = broken.rest })
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != Other || a.Unkept {
		t.Errorf("answer = %+v, want the failure that both nodes report", a)
	}
}
