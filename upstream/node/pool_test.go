package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// stall is a handler that never answers.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func mustFetch(t *testing.T, p *Pool, r Request) *Answer {
	t.Helper()
	r.Path = "/staking/pool"
	answer, err := p.Fetch(within(t, time.Minute), r)
	expect.NoError(t, err)
	return answer
}

func from(a *Answer, n *fakeNode) bool { return strings.Contains(string(a.Body), n.address) }

func TestAtTipReadsTheNewestKnownBlock(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 100 {
		t.Errorf("height %d, want 100", a.Height)
	}
	n.commit(101)
	wantTip(t, p, 101)
	mustFetch(t, p, Request{Height: AtTip})
	mustFetch(t, p, Request{Height: 0})
	mustFetch(t, p, Request{Height: 50})
	if diff := cmp.Diff([]string{"100", "101", "", "50"}, n.heights()); diff != "" {
		t.Errorf("heights read (-want +got):\n%s", diff)
	}
}

func TestHeightIsChosenWhenRequestLeavesTheQueue(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{InFlight: 1, Queue: time.Minute, BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	turn, err := p.endpoints()[0].queue.Acquire(t.Context(), queue.Request{})
	expect.NoError(t, err)
	var a *Answer
	var asking sync.WaitGroup
	asking.Go(func() { a = mustFetch(t, p, Request{Height: AtTip}) })
	expect.Eventually(t, "the queue", func() bool { return p.endpoints()[0].queue.Load().Waiting > 0 }) // a probe may wait, too
	n.commit(105)
	wantTip(t, p, 105)
	turn.End(false)
	if asking.Wait(); a != nil && a.Height != 105 {
		t.Errorf("answer has height %d, want 105", a.Height)
	}
}

func TestLaggingEndpointIsNotReadAtTheTip(t *testing.T) {
	ahead, lagging := newFakeNode(t, 105), newFakeNode(t, 104)
	p := run(t, Options{}, lagging, ahead)
	for range 10 {
		if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 105 || !from(a, ahead) {
			t.Fatalf("answer %s at height %d, want 105 of the node ahead", a.Body, a.Height)
		}
	}
	if got := lagging.heights(); len(got) > 0 {
		t.Errorf("heights %v read at the lagging node, want none", got)
	}
}

func TestFetchWaitsForABlockThatNoEndpointHas(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	p.Raise(102) // another replica has read at it
	_, err := p.Fetch(within(t, 50*time.Millisecond), Request{Path: "/x", Height: 102})
	if got := wantKind(t, err, upstream.Timeout); got.RetryAfter < time.Second {
		t.Errorf("RetryAfter = %s, want it set", got.RetryAfter)
	}
	time.AfterFunc(100*time.Millisecond, func() { n.commit(102) })
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 102 {
		t.Errorf("answer has height %d, want 102", a.Height)
	}
}

func TestNodesBelowTheTipAreReadAtTheirNewestBlock(t *testing.T) {
	t.Parallel()
	for name, height := range map[string]int64{"far behind": 900, "a little behind": 998} {
		t.Run(name, func(t *testing.T) {
			ahead, behind := newFakeNode(t, 1000), newFakeNode(t, height)
			p := run(t, Options{RollbackAfter: time.Hour}, ahead, behind)
			mustFetch(t, p, Request{Height: AtTip})
			ahead.stop()
			for range 2 * maxFailures { // also while nobody asks the one ahead
				if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != height || p.Tip().Height != 1000 {
					t.Fatalf("answer of block %d, tip %d, want %d and 1000", a.Height, p.Tip().Height, height)
				}
			}
		})
	}
}

func TestFutureHeightIsRetried(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	var asked atomic.Int32
	n.change(func() {
		n.rest = func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) < 3 { // committed, but not yet to be read
				refuse(w, "cannot query with height in the future; please provide a valid height: invalid height")
				return
			}
			fmt.Fprint(w, success)
		}
	})
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK {
		t.Errorf("answer %+v, want OK", a)
	}
}

func TestReadIsRepeatedWhenTheTipFalls(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.commit(105)
	wantTip(t, p, 105)
	var asked atomic.Int32
	n.change(func() {
		n.rest = func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) > 1 {
				fmt.Fprint(w, success)
				return
			}
			n.commit(101)
			for p.Tip().Height > 101 && r.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			refuse(w, "cannot query with height in the future; please provide a valid height: invalid height")
		}
	})
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK || a.Height != 101 {
		t.Errorf("answer %+v, want OK at height 101", a)
	}
}

func TestNodeRefusesHeightAboveTheTip(t *testing.T) {
	p := run(t, Options{}, newFakeNode(t, 100))
	a := mustFetch(t, p, Request{Height: 100000})
	if a.Reason != FutureHeight || a.Status != http.StatusBadRequest || a.Height != 100000 {
		t.Errorf("answer %+v, want %v with status 400 at height 100000", a, FutureHeight)
	}
}

func TestPrunedHeightIsReadFromAnotherEndpoint(t *testing.T) {
	pruned, archive := newFakeNode(t, 100), newFakeNode(t, 100)
	pruned.lowest = 50
	p := run(t, Options{}, pruned, archive)
	probed(t, p)
	prefer(p, 0)
	for range 4 {
		if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !from(a, archive) {
			t.Errorf("answer %s, want OK of the archive", a.Body)
		}
	}
	if got := len(pruned.heights()); got != 1 {
		t.Errorf("the pruned one was asked %d times, want once", got)
	}
	archive.change(func() { archive.lowest = 50 })
	for range 2 {
		a := mustFetch(t, p, Request{Height: 10})
		if a.Reason != Pruned || a.Status != http.StatusNotFound || !strings.Contains(a.Text, "no node has kept it (latest height: 100)") {
			t.Errorf("answer %+v, want %v with status 404 and the latest height 100", a, Pruned)
		}
	}
	archive.change(func() { archive.lowest = 1 })
	if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !from(a, archive) {
		t.Errorf("answer %+v, want it from the archive that has the height again", a)
	}
}

func TestPrunedIsReportedAfterAllEndpointsRefused(t *testing.T) {
	pruned, silent := newFakeNode(t, 100), newFakeNode(t, 100)
	pruned.lowest = 50
	p := run(t, Options{}, pruned, silent)
	silent.change(func() { silent.rest = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) } })
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: 10})
	wantKind(t, err, upstream.Unreachable)
}

func TestLowestIsKnownBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	pruned, archive := newFakeNode(t, 100), newFakeNode(t, 100)
	pruned.lowest, pruned.earliest, archive.earliest = 50, 50, 1
	p := run(t, Options{}, pruned, archive)
	expect.Eventually(t, "the lowest heights", func() bool { h := p.Health(); return h[0].Lowest == 50 && h[1].Lowest == 1 })
	if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !from(a, archive) {
		t.Errorf("answer %s, want OK of the archive", a.Body)
	}
	if got := pruned.heights(); len(got) > 0 {
		t.Errorf("pruned node read at %v, want no read", got)
	}
	pruned.stop()
	pruned.lowest, pruned.earliest = 5, 5 // a restored snapshot
	pruned.start(pruned.address)
	expect.Eventually(t, "what the restart brought", func() bool { return p.Health()[0].Lowest == 5 })
}

func TestFailedEndpointIsReplacedByAnother(t *testing.T) {
	t.Parallel() // it takes as long as a request to the silent one
	silent, healthy := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{Timeout: 3 * time.Second, BlockInterval: time.Minute}, silent, healthy) // no late block is looked for
	probed(t, p)
	prefer(p, 0)
	silent.change(func() {
		silent.front = func(w http.ResponseWriter, r *http.Request) { // a probe that succeeds would end the penalty
			if r.URL.Path != storyProbe {
				silent.change(func() { silent.asked = append(silent.asked, "") })
			}
			stall(w, r)
		}
	})
	fetch := func() {
		if a := mustFetch(t, p, Request{Height: AtTip}); !from(a, healthy) {
			t.Errorf("response %s, want the healthy node's", a.Body)
		}
	}
	begun := time.Now()
	expect.Eventually(t, "a request to the silent node", func() bool { // it may seem slower while the machine is busy
		prefer(p, 0)
		fetch()
		return len(silent.heights()) > 0
	})
	for range 10 {
		fetch()
	}
	if got, most := len(silent.heights()), 1+int(time.Since(begun)/penaltyTime); got > most {
		t.Errorf("%d requests to the silent node within %s, want at most %d", got, time.Since(begun), most)
	}
}

func TestOnlyEndpointIsRetried(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{Timeout: 50 * time.Millisecond, BlockInterval: time.Minute}, n)
	n.change(func() { n.rest = stall })
	for p.Health()[0].Breaker == "closed" {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		if p.Health()[0].Breaker == "closed" { // what the pool asks by itself may have opened it
			wantKind(t, err, upstream.Timeout)
		}
	}
	expect.Eventually(t, "a refusal without a trial", func() bool {
		before := len(n.heights())
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		got, ok := errors.AsType[*upstream.Error](err)
		return ok && got.Kind == upstream.Unreachable && got.RetryAfter > 0 && len(n.heights()) == before
	})
	n.change(func() { n.rest = nil })
	expect.Eventually(t, "a trial", func() bool {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		return err == nil
	})
}

func TestAbortedResponsesDoNotDisableNode(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{}, n)
	n.change(func() { n.rest = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) } })
	for range 3 * maxFailures {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		wantKind(t, err, upstream.Unreachable)
	}
	n.change(func() { n.rest = nil })
	mustFetch(t, p, Request{Height: AtTip})
}

func TestBusyNodeGetsLimitedRequests(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{InFlight: 2, Queue: time.Second, Timeout: time.Minute}, n)
	probed(t, p)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open() // lest a failure has the node wait for ever
	var inFlight, most atomic.Int32
	n.change(func() {
		n.rest = func(w http.ResponseWriter, _ *http.Request) {
			most.Store(max(most.Load(), inFlight.Add(1)))
			<-gate
			inFlight.Add(-1)
			fmt.Fprint(w, success)
		}
	})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { mustFetch(t, p, Request{}) })
	}
	expect.Eventually(t, "two in flight", func() bool { return inFlight.Load() == 2 })
	all.Go(func() { mustFetch(t, p, Request{Background: true}) }) // waits
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	if got := wantKind(t, err, upstream.Overloaded); got.RetryAfter < time.Second {
		t.Errorf("RetryAfter = %s, want it set", got.RetryAfter)
	}
	open()
	all.Wait()
	if most.Load() != 2 {
		t.Errorf("requests in flight = %d, want 2", most.Load())
	}
}

func TestRESTServerWithoutHeightsIsReadUnpinned(t *testing.T) {
	n := newFakeNode(t, 1<<62) // answers at any
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + n.address}}})
	go func() { _ = p.Run(context.Background()) }()
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 0 || p.Tip().Known {
		t.Errorf("answer %+v, tip %+v, want none known", a, p.Tip())
	}
	if a := mustFetch(t, p, Request{Height: 50}); a.Height != 50 {
		t.Errorf("answer %+v, want height 50", a)
	}
	if diff := cmp.Diff([]string{"", "50"}, n.heights()); diff != "" {
		t.Errorf("heights read (-want +got):\n%s", diff)
	}
	expect.Eventually(t, "readiness", func() bool { return p.Ready() == nil })
}

func TestRequestWaitsUntilTheChainIsKnown(t *testing.T) {
	n := newFakeNode(t, 100)
	n.chain = "other-1"
	p := newPool(t, Options{ChainID: "story-1"}, n)
	failed := make(chan error)
	go func() {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		failed <- err
	}()
	go func() { _ = p.Run(context.Background()) }()
	wantKind(t, <-failed, upstream.Unreachable)
	if len(n.heights()) > 0 {
		t.Error("Fetch from another chain succeeded, want an error")
	}
}

// With one slot left, what nobody waits for fails at once, and says so; the
// endpoint is not called sick for that.
func TestReadAheadYieldsToOtherRequests(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{InFlight: 2, BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	ahead := Request{Path: "/staking/pool", Height: AtTip, Ahead: true}
	answered := func() bool { // a probe of the pool may have a slot at times
		_, err := p.Fetch(within(t, time.Minute), ahead)
		return p.Spare() && err == nil
	}
	expect.Eventually(t, "an answer while there is room", answered)
	turn, err := p.endpoints()[0].queue.Acquire(t.Context(), queue.Request{})
	expect.NoError(t, err)
	if _, err := p.Fetch(within(t, time.Minute), ahead); p.Spare() || !errors.Is(err, upstream.ErrYielded) {
		t.Errorf("spare %v, error %v, want false and %v", p.Spare(), err, upstream.ErrYielded)
	}
	mustFetch(t, p, Request{Height: AtTip})
	turn.End(false)
	expect.Eventually(t, "an answer when there is room again", answered)
}
