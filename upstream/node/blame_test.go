package node

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

// endless is a handler whose responses have no end.
func endless(w http.ResponseWriter, _ *http.Request) {
	spaces := []byte(strings.Repeat(" ", 64<<10))
	for {
		if _, err := w.Write(spaces); err != nil {
			return
		}
	}
}

// failuresOf returns how many failures the breaker of a REST server has counted since it was last closed.
func failuresOf(p *Pool, i int) int {
	return int(p.endpoints()[i].restServer.breaker.Counts().TotalFailures)
}

func TestNodeThatAnswersWithoutEndIsToBlame(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"too large":             {maxBody: 1 << 20},
		"more than free memory": {Memory: account.New(16<<20, nil).Upstream()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, well := newFakeNode(t, 100), newFakeNode(t, 100)
			bad.rest = endless
			o.BlockInterval = time.Minute
			p := run(t, o, bad, well)
			waitForProbes(t, p)
			for i := range 3 {
				p.endpoints()[0].restServer.failed.Store(0)
				prefer(p, 0)
				a := expect.Value(p.Fetch(within(t, time.Minute), Request{Path: fmt.Sprintf("/x/%d", i), Height: AtTip}))(t)
				if !isFrom(a, well) {
					t.Errorf("answer = %.60s, want that of the other node", a.Body)
				}
			}
			if failuresOf(p, 0) == 0 || !p.endpoints()[0].restServer.failedLately() {
				t.Error("the node was not blamed")
			}
			expect.Equal(t, failuresOf(p, 1), 0, "failures of the other node")
		})
	}
}

func TestSlowNodeIsToBlameIfAnotherAnswers(t *testing.T) {
	t.Parallel()
	slow, well := newFakeNode(t, 100), newFakeNode(t, 100)
	slow.rest = stall
	p := run(t, Options{Settings: Settings{Timeout: 2 * time.Second}, BlockInterval: time.Minute}, slow, well)
	waitForProbes(t, p)
	expect.Eventually(t, "an answer of the other node after the slow one was asked", func() bool {
		prefer(p, 0)
		a, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: AtTip})
		return err == nil && isFrom(a, well) && failuresOf(p, 0) > 0
	})
}

func TestRequestsThatNoNodeCanAnswerLeaveBreakersClosed(t *testing.T) {
	t.Parallel()
	one, two := newFakeNode(t, 100), newFakeNode(t, 100)
	var requests atomic.Int64
	large := []byte(strings.Repeat(" ", 2000))
	large = append([]byte(`{"code":200,"msg":{},"error":"`), append(large, `"}`...)...)
	one.rest = func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write(large)
	}
	two.rest = one.rest
	p := run(t, Options{maxBody: 1000, BlockInterval: time.Minute}, one, two)
	waitForProbes(t, p)
	fetch := func(i int) *upstream.Error {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", Query: fmt.Sprint(i), Height: AtTip})
		failure, ok := errors.AsType[*upstream.Error](err)
		if !ok || !errors.Is(err, errTooLarge) || !failure.Provoked {
			t.Fatalf("Fetch = %v, want %v, caused by the request", err, errTooLarge)
		}
		return failure
	}
	for i := range 1000 {
		fetch(i)
	}
	for i, h := range p.Health() {
		expect.NoDiff(t, []any{h.Breaker, failuresOf(p, i)}, []any{"closed", 0}, "breaker of %s and its failures", h.Name)
		expect.Equal(t, p.endpoints()[i].restServer.failedLately(), false, "node ranks behind others")
	}
	expect.Equal(t, requests.Load(), 2000, "requests to the nodes")
	expect.Eventually(t, "a refusal without a request to a node", func() bool {
		before := requests.Load()
		fetch(999)
		return requests.Load() == before
	})
}

// A node whose limit is lower says so, which does not show that the other node is to blame.
func TestNodeIsNotToBlameIfTheOtherRefusesTheRequest(t *testing.T) {
	t.Parallel()
	large, limited := newFakeNode(t, 100), newFakeNode(t, 100)
	large.rest = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }
	limited.rest = func(w http.ResponseWriter, _ *http.Request) { refuse(w, "a limit of this node") }
	p := run(t, Options{maxBody: 1000, BlockInterval: time.Minute}, large, limited)
	waitForProbes(t, p)
	for first := range 2 {
		prefer(p, first)
		a := expect.Value(p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: AtTip}))(t)
		expect.Equal(t, a.Reason, Other, "reason of the answer")
		expect.Equal(t, failuresOf(p, 0), 0, "failures that count")
	}
}

func TestRequestThatWasNotSentIsNotToBlame(t *testing.T) {
	p := expect.Value(New(Options{Endpoints: []Endpoint{{REST: "http://127.0.0.1:1"}, {REST: "http://127.0.0.1:2"}}}))(t)
	defer p.Close()
	f := &fetch{pool: p, request: Request{Path: "/x", Height: AtTip}}
	var err error = upstream.Silence(nodeName, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})
	for i, e := range p.endpoints() {
		_, _ = e.restServer.breaker.Execute(func() (*Answer, error) { return nil, err })
		e.restServer.blameTimeout(err)
		f.take(t.Context(), result{endpoint: e, err: err})
		expect.Equal(t, failuresOf(p, i), 1, "failures of node %d after a connection that timed out", i)
	}
	if got := f.blame(nil, err); !errors.Is(got, err) || p.refusals.of(f.request) != nil {
		t.Errorf("blame = %#v and later requests get %v, want the request not to be blamed", got, p.refusals.of(f.request))
	}
}
