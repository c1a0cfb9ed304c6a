package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/queue"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// stall is a handler that never responds.
func stall(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // until then net/http does not notice that the client has left
	<-r.Context().Done()
}

func mustFetch(t *testing.T, p *Pool, r Request) *Answer {
	t.Helper()
	r.Path = "/staking/pool"
	answer := expect.Value(p.Fetch(within(t, time.Minute), r))(t)
	return answer
}

func isFrom(a *Answer, n *fakeNode) bool { return strings.Contains(string(a.Body), n.address) }

func TestAtTipReadsTheNewestKnownBlock(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	expect.Equal(t, mustFetch(t, p, Request{Height: AtTip}).Height, 100, "height")
	n.commit(101)
	wantTip(t, p, 101)
	mustFetch(t, p, Request{Height: AtTip})
	mustFetch(t, p, Request{Height: 0})
	mustFetch(t, p, Request{Height: 50})
	expect.NoDiff(t, n.requestedHeights(), []string{"100", "101", "", "50"}, "heights read")
}

func TestHeightIsChosenWhenRequestLeavesTheQueue(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{InFlight: 1}, Queue: time.Minute, BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	turn := expect.Value(p.endpoints()[0].queue.Acquire(t.Context(), queue.Request{}))(t)
	answered := make(chan *Answer, 1)
	go func() {
		a, _ := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: AtTip})
		answered <- a
	}()
	expect.Eventually(t, "a waiting request", func() bool { return p.endpoints()[0].queue.Load().Waiting > 0 }) // a probe may wait, too
	n.commit(105)
	wantTip(t, p, 105)
	turn.End(false)
	if a := <-answered; a == nil || a.Height != 105 {
		t.Errorf("Fetch = %+v, want height 105", a)
	}
}

func TestLaggingEndpointIsNotReadAtTheTip(t *testing.T) {
	ahead, lagging := newFakeNode(t, 105), newFakeNode(t, 104)
	p := run(t, Options{}, lagging, ahead)
	for range 10 {
		if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 105 || !isFrom(a, ahead) {
			t.Fatalf("answer = %s at height %d, want 105 of the node ahead", a.Body, a.Height)
		}
	}
	if got := lagging.requestedHeights(); len(got) > 0 {
		t.Errorf("heights read at the lagging node = %q, want none", got)
	}
}

func TestFetchWaitsForABlockThatNoEndpointHas(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	p.Raise(102) // another replica has read it
	_, err := p.Fetch(within(t, 50*time.Millisecond), Request{Path: "/x", Height: 102})
	if got := wantKind(t, err, upstream.Timeout); got.RetryAfter < time.Second {
		t.Errorf("RetryAfter = %s, want at least 1s", got.RetryAfter)
	}
	time.AfterFunc(100*time.Millisecond, func() { n.commit(102) })
	expect.Equal(t, mustFetch(t, p, Request{Height: AtTip}).Height, 102, "height")
}

func TestNodesBelowTheTipAreReadAtTheirNewestBlock(t *testing.T) {
	t.Parallel()
	for name, height := range map[string]int64{"far behind": 900, "a little behind": 998} {
		t.Run(name, func(t *testing.T) {
			ahead, behind := newFakeNode(t, 1000), newFakeNode(t, height)
			p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}}, ahead, behind)
			mustFetch(t, p, Request{Height: AtTip})
			ahead.stop()
			for range 2 * maxFailures { // also while no request reaches the node ahead
				if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != height || p.Tip().Height != 1000 {
					t.Fatalf("height = %d with tip %d, want %d with 1000", a.Height, p.Tip().Height, height)
				}
			}
		})
	}
}

func TestFutureHeightIsRetried(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	var requests atomic.Int32
	n.change(func() {
		n.rest = func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) < 3 { // committed, but not readable yet
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
	var requests atomic.Int32
	n.change(func() {
		n.rest = func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) > 1 {
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
	waitForProbes(t, p)
	prefer(p, 0)
	for range 4 {
		if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !isFrom(a, archive) {
			t.Errorf("answer %s, want OK of the archive", a.Body)
		}
	}
	expect.Equal(t, len(pruned.requestedHeights()), 1, "requests to the pruned node")
	archive.change(func() { archive.lowest = 50 })
	for range 2 {
		a := mustFetch(t, p, Request{Height: 10})
		if a.Reason != Pruned || a.Status != http.StatusNotFound || !strings.Contains(a.Text, "no node has kept it (latest height: 100)") {
			t.Errorf("answer %+v, want %v with status 404 and the latest height 100", a, Pruned)
		}
	}
	archive.change(func() { archive.lowest = 1 })
	if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !isFrom(a, archive) {
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

func TestLastEndpointIsReadIfTheOthersAreOff(t *testing.T) {
	off, alsoOff, last := newFakeNode(t, 100), newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, off, alsoOff, last)
	waitForProbes(t, p)
	off.stop()
	alsoOff.stop()
	for _, e := range p.endpoints() {
		e.restServer.failed.Store(0) // no request has noticed yet that they are off
	}
	prefer(p, 0)
	if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !isFrom(a, last) {
		t.Errorf("answer = %+v, want OK of the last node", a)
	}
}

func TestPrunedIsNotReportedWhileAnArchiveIsNotReadable(t *testing.T) {
	t.Parallel()
	refusing := startGRPC(t, "127.0.0.1:0", "story-1")
	refusing.refuse(codes.Unknown, "failed to load state at height 10; version does not exist", false)
	for name, tt := range map[string]struct {
		archive func(n *fakeNode) // changes the archive
		known   int64             // its height, once polled
		request Request
		want    upstream.Kind
	}{
		"gRPC server down": {func(n *fakeNode) { n.grpc = porttest.Address(t) }, 1000, Request{Invoke: &Invocation{Method: aMethod}}, upstream.Unreachable},
		"not called yet":   {func(n *fakeNode) { n.front, n.frontRPC = stall, true }, 0, Request{Path: "/x"}, upstream.Unreachable},
		"off":              {func(n *fakeNode) { n.address = porttest.Address(t) }, 0, Request{Path: "/x"}, upstream.Unreachable},
		"far behind":       {func(n *fakeNode) { n.height = 900 }, 900, Request{Path: "/x"}, upstream.Overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pruned, archive := newFakeNode(t, 1000), newFakeNode(t, 1000)
			pruned.change(func() { pruned.lowest, pruned.grpc = 990, refusing.address })
			archive.change(func() { tt.archive(archive) })
			p := newPool(t, Options{Settings: Settings{Timeout: time.Minute, RollbackAfter: time.Hour}, BlockInterval: time.Minute}, pruned, archive)
			go func() { _ = p.Run(context.Background()) }()
			wantTip(t, p, 1000)
			waitForGRPC(t, p, 0, "ok")
			expect.EventuallyEqual(t, "the height of the archive", func() int64 { return p.Health()[1].Height }, tt.known)
			tt.request.Height = 950
			_, err := p.Fetch(within(t, time.Minute), tt.request)
			wantKind(t, err, tt.want)
			if name == "far behind" {
				return
			}
			if name == "off" { // the archive is tried first, and fails
				p.endpoints()[0].serverOf(tt.request).failed.Store(time.Now().UnixNano())
			}
			p.options.patience = time.Nanosecond // Fetch alone reads it
			if a, err := p.Fetch(within(t, time.Minute), tt.request); err != nil || a.Reason != Pruned {
				t.Errorf("Fetch when the archive has not been readable for long = %+v, %v; want %v", a, err, Pruned)
			}
		})
	}
}

func TestArchiveIsReadByGRPCAlthoughItsRESTServerIsOff(t *testing.T) {
	t.Parallel()
	refusing, has := startGRPC(t, "127.0.0.1:0", "story-1"), startGRPC(t, "127.0.0.1:0", "story-1")
	refusing.refuse(codes.Unknown, "failed to load state at height 10; version does not exist", false)
	pruned, archive := newFakeNode(t, 1000), newFakeNode(t, 1000)
	pruned.change(func() { pruned.grpc = refusing.address })
	archive.change(func() { archive.grpc = has.address })
	p := newPool(t, Options{Settings: Settings{Timeout: time.Minute, RollbackAfter: time.Hour}, BlockInterval: time.Minute}, pruned, archive)
	p.endpoints()[1].configured.Priority = 1
	go func() { _ = p.Run(context.Background()) }()
	wantTip(t, p, 1000)
	waitForGRPC(t, p, 0, "ok")
	waitForGRPC(t, p, 1, "ok")
	expect.EventuallyEqual(t, "the height of the archive", func() int64 { return p.Health()[1].Height }, 1000)
	archive.change(func() {
		archive.front = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "off", http.StatusBadGateway) }
	})
	expect.Eventually(t, "a failed probe of the archive", p.endpoints()[1].restServer.failedLately)
	p.options.patience = time.Nanosecond // Fetch alone reads it
	if a, err := p.Fetch(within(t, time.Minute), Request{Height: 950, Invoke: &Invocation{Method: aMethod}}); err != nil || a.Reason != OK {
		t.Errorf("Fetch = %+v, %v; want %v from the archive", a, err, OK)
	}
}

func TestLowestIsKnownBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	pruned, archive := newFakeNode(t, 100), newFakeNode(t, 100)
	pruned.lowest, pruned.earliest, archive.earliest = 50, 50, 1
	p := run(t, Options{}, pruned, archive)
	expect.EventuallyEqual(t, "the lowest heights", func() [2]int64 { h := p.Health(); return [...]int64{h[0].Lowest, h[1].Lowest} }, [...]int64{50, 1})
	if a := mustFetch(t, p, Request{Height: 10}); a.Reason != OK || !isFrom(a, archive) {
		t.Errorf("answer %s, want OK of the archive", a.Body)
	}
	if got := pruned.requestedHeights(); len(got) > 0 {
		t.Errorf("heights read at the pruned node = %q, want none", got)
	}
	pruned.stop()
	pruned.lowest, pruned.earliest = 5, 5 // a restored snapshot
	pruned.start(pruned.address)
	expect.EventuallyEqual(t, "the lowest height after the restart", func() int64 { return p.Health()[0].Lowest }, 5)
}

func TestFailedEndpointIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	silent, healthy := newFakeNode(t, 100), newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{Timeout: 3 * time.Second}, BlockInterval: time.Minute}, silent, healthy) // a long interval, so that the pool does not search for a late block
	waitForProbes(t, p)
	prefer(p, 0)
	silent.change(func() {
		silent.front = func(w http.ResponseWriter, r *http.Request) { // a probe that succeeds would end the penalty
			if r.URL.Path != storyProbe {
				silent.change(func() { silent.heights = append(silent.heights, "") })
			}
			stall(w, r)
		}
	})
	fetch := func() {
		if a := mustFetch(t, p, Request{Height: AtTip}); !isFrom(a, healthy) {
			t.Errorf("response %s, want the healthy node's", a.Body)
		}
	}
	start := time.Now()
	expect.Eventually(t, "a request to the silent node", func() bool { // on a busy machine it may seem slower
		prefer(p, 0)
		fetch()
		return len(silent.requestedHeights()) > 0
	})
	for range 10 {
		fetch()
	}
	if got, most := len(silent.requestedHeights()), 1+int(time.Since(start)/penaltyTime); got > most {
		t.Errorf("requests to the silent node = %d within %s, want at most %d", got, time.Since(start), most)
	}
}

func TestOnlyEndpointIsRetried(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{Timeout: 50 * time.Millisecond}, BlockInterval: time.Minute}, n)
	n.change(func() { n.rest = stall })
	for p.Health()[0].Breaker == "closed" {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		if p.Health()[0].Breaker == "closed" { // a request of the pool may have opened it
			wantKind(t, err, upstream.Timeout)
		}
	}
	expect.Eventually(t, "a refusal without a trial", func() bool {
		before := len(n.requestedHeights())
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		got, ok := errors.AsType[*upstream.Error](err)
		return ok && got.Kind == upstream.Unreachable && got.RetryAfter > 0 && len(n.requestedHeights()) == before
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
	p := run(t, Options{Settings: Settings{InFlight: 2, Timeout: time.Minute}, Queue: time.Second}, n)
	waitForProbes(t, p)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open() // so that the node ends after a failure
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
	expect.EventuallyEqual(t, "two requests in flight", inFlight.Load, 2)
	all.Go(func() { mustFetch(t, p, Request{Background: true}) }) // waits
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	if got := wantKind(t, err, upstream.Overloaded); got.RetryAfter < time.Second {
		t.Errorf("RetryAfter = %s, want at least 1s", got.RetryAfter)
	}
	open()
	all.Wait()
	expect.Equal(t, most.Load(), 2, "most requests in flight")
}

func TestRESTServerWithoutHeightsIsReadUnpinned(t *testing.T) {
	n := newFakeNode(t, 1<<62) // responds at any height
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + n.address}}})
	go func() { _ = p.Run(context.Background()) }()
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 0 || p.Tip().Known {
		t.Errorf("answer = %+v with tip %+v, want no height", a, p.Tip())
	}
	if a := mustFetch(t, p, Request{Height: 50}); a.Height != 50 {
		t.Errorf("answer %+v, want height 50", a)
	}
	expect.NoDiff(t, n.requestedHeights(), []string{"", "50"}, "heights read")
	expect.EventuallyEqual(t, "readiness", p.Ready, nil)
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
	if len(n.requestedHeights()) > 0 {
		t.Errorf("heights read from another chain = %q, want none", n.requestedHeights())
	}
}

// A read ahead fails at once if only one slot is free, and does not count as a failure of the node.
func TestReadAheadYieldsToOtherRequests(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{InFlight: 2}, BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	ahead := Request{Path: "/staking/pool", Height: AtTip, Ahead: true}
	answered := func() bool { // a probe may hold a slot
		_, err := p.Fetch(within(t, time.Minute), ahead)
		return p.Spare() && err == nil
	}
	expect.Eventually(t, "an answer with two free slots", answered)
	turn := expect.Value(p.endpoints()[0].queue.Acquire(t.Context(), queue.Request{}))(t)
	if _, err := p.Fetch(within(t, time.Minute), ahead); p.Spare() || !errors.Is(err, upstream.ErrYielded) {
		t.Errorf("Spare = %v and Fetch = %v, want false and %v", p.Spare(), err, upstream.ErrYielded)
	}
	mustFetch(t, p, Request{Height: AtTip})
	turn.End(false)
	expect.Eventually(t, "an answer with two free slots again", answered)
}

func TestNodeBehindTheTipIsExpectedToAnswerIfNoOtherWorks(t *testing.T) {
	off, behind := newFakeNode(t, 1000), newFakeNode(t, 900)
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, BlockInterval: time.Minute}, off, behind)
	expect.Eventually(t, "both heights", func() bool {
		h := p.Health()
		return h[0].Height == 1000 && h[1].Height == 900 && p.Tip().Height == 1000
	})
	waitForProbes(t, p)
	off.stop()
	expect.Eventually(t, "the open breaker of the node that is off", func() bool {
		p.endpoints()[0].restServer.failed.Store(0) // so that it is tried first
		mustFetch(t, p, Request{Height: AtTip})
		return p.endpoints()[0].restServer.isOpen()
	})
	if a := mustFetch(t, p, Request{Height: AtTip}); !isFrom(a, behind) {
		t.Errorf("answer = %+v, want the answer of the node behind the tip", a)
	}
	expect.Equal(t, p.Spare(), true, "Spare")
	_, turn := occupy(t, p, 1) // the expected duration is the time since then
	defer turn.End(false)
	if got := p.Expected(Request{Height: AtTip, Cost: Page}); got == 0 {
		t.Error("Expected = 0, want the duration at the node behind the tip")
	}
}

func TestExpectedDurationIsThatOfTheNodeToBeChosen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		idleHeight int64 // of the idle node; the busy one is at 1000
		known      bool  // whether the duration at the busy node is expected
	}{"idle node at the tip": {1000, false}, "idle node behind": {900, true}} {
		for _, busy := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, busy one at %d", name, busy), func(t *testing.T) {
				t.Parallel()
				nodes := []*fakeNode{newFakeNode(t, tt.idleHeight), newFakeNode(t, tt.idleHeight)}
				nodes[busy].change(func() { nodes[busy].height = 1000 })
				p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, BlockInterval: time.Minute}, nodes...)
				expect.Eventually(t, "both heights", func() bool {
					h := p.Health()
					return h[busy].Height == 1000 && h[1-busy].Height == tt.idleHeight && p.Tip().Height == 1000
				})
				_, turn := occupy(t, p, busy) // the expected duration is the time since then
				defer turn.End(false)
				prefer(p, 1-busy)
				if got := p.Expected(Request{Height: AtTip, Cost: Page}); got > 0 != tt.known {
					t.Errorf("Expected = %s, want more than 0: %t", got, tt.known)
				}
			})
		}
	}
}
