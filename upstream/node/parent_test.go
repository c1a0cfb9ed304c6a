package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newParent returns a node behind another tipcache. It responds at the given heights, 0 being no height. Reads at a height
// get this height. With a status of 400 or more it refuses every request except the pool's probe.
func newParent(t *testing.T, status int, heights ...int64) *fakeNode {
	t.Helper()
	n := newFakeNode(t, 100)
	n.front = func(w http.ResponseWriter, r *http.Request) {
		requested := cmp.Or(r.URL.Query().Get("x-block-height"), r.Header.Get("X-Block-Height"))
		if r.URL.Path == storyProbe {
			w.Header().Set("Cache-Status", `tipcache; hit; ttl=1; detail="memory"`)
			w.Header().Set("X-Block-Height", requested)
			fmt.Fprint(w, `{"code":200,"msg":{},"error":""}`)
			return
		}
		if status >= http.StatusBadRequest {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"code":%d,"msg":{},"error":"no"}`, status)
			return
		}
		var height int64
		n.change(func() {
			n.heights = append(n.heights, requested)
			height, heights = heights[0], heights[min(1, len(heights)-1):]
		})
		if requested != "" {
			w.Header().Set("X-Block-Height", requested)
		} else if height > 0 {
			w.Header().Set("X-Block-Height", fmt.Sprint(height))
		}
		w.Header().Set("Cache-Status", `tipcache; hit; ttl=-3; detail="memory; stale-if-error"`)
		w.Header().Set("Age", "5")
		fmt.Fprint(w, `{"code":200,"msg":{},"error":""}`)
	}
	return n
}

func waitForParent(t *testing.T, p *Pool) {
	t.Helper()
	expect.Eventually(t, "the parents to be detected", func() bool {
		return !slices.ContainsFunc(p.endpoints(), func(e *endpoint) bool { return !e.client.isParent.Load() })
	})
}

func TestParentIsReadAtItsNewestBlock(t *testing.T) {
	for _, tt := range []struct {
		name      string
		heights   []int64
		request   Request
		requested []string
		want      int64
	}{
		{"an older answer keeps its height", []int64{97}, Request{Height: AtTip}, []string{""}, 97},
		{"a newer answer keeps its height", []int64{101}, Request{Height: AtTip}, []string{""}, 101},
		{"an answer without a height is read at the newest block", []int64{0}, Request{Height: AtTip}, []string{"", "100"}, 100},
		{"a height is read at this height", []int64{0}, Request{Height: 90}, []string{"90"}, 90},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newParent(t, http.StatusOK, tt.heights...)
			p := run(t, Options{BlockInterval: time.Minute}, n)
			wantTip(t, p, 100)
			waitForParent(t, p)
			lowest := p.endpoints()[0].snapshot().Lowest
			tt.request.Path = "/staking/pool"
			a, err := p.Fetch(t.Context(), tt.request)
			if err != nil || a.Height != tt.want || a.Age != 5*time.Second {
				t.Errorf("Fetch = %+v, %v; want height %d and an age of 5s", a, err, tt.want)
			}
			expect.NoDiff(t, n.requestedHeights(), tt.requested, "requested heights")
			expect.Equal(t, p.endpoints()[0].snapshot().Lowest, lowest, "lowest height after a cached answer")
		})
	}
}

func TestRefusalOfParentIsNoFailureOfIt(t *testing.T) {
	for status, kind := range map[int]upstream.Kind{429: upstream.Overloaded, 503: upstream.Overloaded, 502: upstream.BadAnswer, 504: upstream.BadAnswer} {
		n := newParent(t, status, 0)
		p := run(t, Options{BlockInterval: time.Minute}, n)
		wantTip(t, p, 100)
		waitForParent(t, p)
		for range 2 * maxFailures {
			_, err := p.Fetch(t.Context(), Request{Path: "/staking/pool", Height: AtTip})
			if refusal, ok := errors.AsType[*upstream.Error](err); !ok || refusal.Kind != kind || refusal.RetryAfter != 7*time.Second {
				t.Fatalf("Fetch with status %d = %v, want kind %v and a Retry-After of 7s", status, err, kind)
			}
		}
		if e := p.endpoints()[0]; e.restServer.isOpen() || e.restServer.failedLately() {
			t.Errorf("status %d of a parent counts as its failure", status)
		}
	}
}

func TestRequestThatParentRefusesGoesToAnotherParent(t *testing.T) {
	p := run(t, Options{BlockInterval: time.Minute}, newParent(t, http.StatusServiceUnavailable, 0), newParent(t, http.StatusOK, 100))
	wantTip(t, p, 100)
	waitForParent(t, p)
	for range 10 {
		if a, err := p.Fetch(t.Context(), Request{Path: "/staking/pool", Height: AtTip}); err != nil || a.Height != 100 {
			t.Fatalf("Fetch = %+v, %v; want the answer of the other parent", a, err)
		}
	}
}

func TestAnswerOfParentProvesNoHeight(t *testing.T) {
	const height, earliest = 80, 90
	server := startGRPC(t, "127.0.0.1:0", "story-1")
	n := newParent(t, http.StatusOK, 0)
	n.grpc, n.earliest = server.address, earliest
	n.rest = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"response":{"code":0,"height":"%d"}}}`, height)
	}
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	waitForParent(t, p)
	waitForGRPC(t, p, 0, "ok")
	for api, r := range map[string]Request{
		"REST": {Path: "/staking/pool"},
		"RPC":  {Call: &Call{Method: "abci_query", Params: func(int64) json.RawMessage { return json.RawMessage(`{}`) }}},
		"gRPC": {Invoke: &Invocation{Method: aMethod}},
	} {
		r.Height = height
		if a := mustFetch(t, p, r); a.Height != height || !a.Cached {
			t.Errorf("%s: Fetch = %+v, want a cached answer at height %d", api, a, height)
		}
		expect.Equal(t, p.endpoints()[0].snapshot().Lowest, earliest, "%s: lowest height after a cached answer", api)
	}
}

func TestParentThatRefusesEveryRequestIsDegraded(t *testing.T) {
	t.Parallel()
	var parents []*fakeNode
	var answers, refusals []http.HandlerFunc
	want := map[string]string{} // causes by name
	for _, status := range []int{429, 502, 503, 504} {
		n := newParent(t, http.StatusOK, 100)
		parents, answers = append(parents, n), append(answers, n.front)
		refusals = append(refusals, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		want["node "+n.address] = fmt.Sprintf("status %d", status)
	}
	p := run(t, Options{Settings: Settings{MaxBlockAge: time.Hour}, retry: quickProbes, BlockInterval: time.Minute}, parents...)
	waitForParent(t, p)
	fail(p, parents, false, refusals)
	expect.Eventually(t, "an outage of each parent", func() bool {
		causes := p.Outages().Causes()
		for name, cause := range want {
			if !strings.Contains(causes[name], cause) {
				return false
			}
		}
		return true
	})
	for _, e := range p.endpoints() {
		expect.Equal(t, e.restServer.isOpen(), false, "breaker of %s is open", e.name)
	}
	fail(p, parents, false, answers)
	expect.EventuallyEqual(t, "the end of the outages", func() int { return len(p.Outages().Causes()) }, 0)
}

func TestAgeOfParentIsWholeSeconds(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "1m3": 0, "0.5": 0, "99999999999999999999": (1<<31 - 1) * time.Second,
	} {
		n := newParent(t, http.StatusOK, 100)
		answers := n.front
		n.front = func(w http.ResponseWriter, r *http.Request) { answers(withAge{w, header}, r) }
		p := run(t, Options{BlockInterval: time.Minute}, n)
		wantTip(t, p, 100)
		waitForParent(t, p)
		expect.Equal(t, mustFetch(t, p, Request{Height: AtTip}).Age, want, "age with Age: %s", header)
	}
}

// withAge replaces the Age of a response.
type withAge struct {
	http.ResponseWriter

	age string
}

func (w withAge) Write(b []byte) (int, error) {
	w.Header().Set("Age", w.age)
	return w.ResponseWriter.Write(b)
}

func TestParentWithoutAnAnswerDoesNotRefuseATransaction(t *testing.T) {
	for status, lost := range map[int]bool{
		http.StatusGatewayTimeout: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: false, http.StatusTooManyRequests: false,
	} {
		n := newParent(t, http.StatusOK, 100)
		p := run(t, Options{BlockInterval: time.Minute}, n)
		wantTip(t, p, 100)
		waitForParent(t, p)
		n.change(func() {
			n.front, n.frontRPC = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, true
		})
		_, err := p.Fetch(t.Context(), Request{Path: "/txs", Height: AtTip, Unpinned: true, Post: &Post{Body: []byte("tx")}})
		if err == nil || upstream.MayHaveRun(err) != lost {
			t.Errorf("Fetch of a transaction from a parent with status %d = %v, want an unknown outcome: %t", status, err, lost)
		}
	}
}
