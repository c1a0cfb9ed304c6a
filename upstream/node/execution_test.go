package node

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

func TestErrNoExecutionNeedsAResponse(t *testing.T) {
	without, stopped := newFakeNode(t, 100), newFakeNode(t, 100)
	without.change(func() {
		without.rest = func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":-1,"result":{"block":{"header":{"height":"100"},"data":{"txs":[]}}}}`)
		}
	})
	p := run(t, Options{}, stopped, without)
	stopped.stop()
	if _, _, err := p.Executed(within(t, time.Minute), "client", 100, 1); !errors.Is(err, ErrNoExecution) {
		t.Errorf("Executed for blocks without a payload = %v, want ErrNoExecution", err)
	}
	without.stop()
	expect.Eventually(t, "both CometBFT to be down", func() bool { return p.endpoints()[0].snapshot().CometDown && p.endpoints()[1].snapshot().CometDown })
	_, _, err := p.Executed(within(t, time.Minute), "client", 100, 1)
	wantKind(t, err, upstream.Unreachable)

	alone := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + without.address}}})
	if _, _, err := alone.Executed(within(t, time.Minute), "client", 100, 1); !errors.Is(err, ErrNoExecution) {
		t.Errorf("Executed without CometBFT = %v, want ErrNoExecution", err)
	}
}

// The chain's block h contains block h+1000 of the execution client.
func TestExecutedReturnsTheLowestKnownHeight(t *testing.T) {
	n := newFakeNode(t, 100)
	n.executionAhead = 1000
	p := run(t, Options{}, n)
	wantTip(t, p, 100)
	steps := []struct {
		what                          string
		height, number, since, newest int64
		requests                      int
	}{
		{"first number is requested", 100, 1050, 100, 1099, 1},
		{"known number is not requested", 100, 1060, 100, 1060, 0},
		{"known number after the tip has moved", 500, 1099, 100, 1099, 0},
		{"number not contained yet", 100, 1100, 0, 1099, 0},
		{"number contained later", 110, 1105, 110, 1109, 1},
		{"number between known heights is not requested", 500, 1105, 110, 1105, 0},
		{"a lower height", 90, 1050, 90, 1089, 1},
		{"lower height is the lowest from then on", 500, 1050, 90, 1050, 0},
		{"lower height does not apply to a later number", 500, 1095, 100, 1095, 0},
		{"height 0 has no number", 0, 1, 0, 0, 0},
	}
	for _, s := range steps {
		var before, after int
		n.change(func() { before = len(n.blocks) })
		since, newest, err := p.Executed(within(t, time.Minute), "client", s.height, s.number)
		n.change(func() { after = len(n.blocks) })
		if err != nil || since != s.since || newest != s.newest || after-before != s.requests {
			t.Errorf("%s: Executed = %d, %d, %v with %d requests; want %d, %d with %d", s.what, since, newest, err, after-before, s.since, s.newest, s.requests)
		}
	}
	n.stop()
	expect.Eventually(t, "CometBFT to be down", func() bool { return p.endpoints()[0].snapshot().CometDown })
	if since, _, err := p.Executed(within(t, time.Minute), "client", 500, 1099); since != 100 || err != nil {
		t.Errorf("Executed with CometBFT down = %d, %v; want 100", since, err)
	}
}

func TestExecutionBlocksAreBoundedAndBelongToOneEpoch(t *testing.T) {
	e := new(executions)
	for height := range int64(2 * maxExecutions) {
		e.add(1, execution{height + 1, height + 1000})
	}
	if got := e.since(1, 1); len(e.all) != maxExecutions || got != maxExecutions+1 {
		t.Errorf("executions = %d from height %d, want them bounded", len(e.all), got)
	}
	e.add(1, execution{2*maxExecutions + 1, 5}) // fell
	e.add(0, execution{2*maxExecutions + 2, 1 << 40})
	expect.Equal(t, e.since(1, 1<<40), 0, "since(1<<40)")
	e.add(2, execution{7, 70})
	if got := []int64{e.since(1, 1), e.since(2, 70), e.since(2, 71)}; !slices.Equal(got, []int64{0, 7, 0}) {
		t.Errorf("since in a new epoch = %v, want 0", got)
	}
}

func TestReadsOfExecutionBlocksTakeTurns(t *testing.T) {
	t.Parallel()
	const inFlight, reads = 2, 20
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{InFlight: inFlight, Timeout: time.Minute}, Queue: time.Minute, BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	waitForProbes(t, p)
	gate := make(chan struct{})
	var now, most atomic.Int32
	n.change(func() {
		n.rest = func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			select {
			case <-gate:
			case <-r.Context().Done(): // the test has failed
			}
			now.Add(-1)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"block":{"header":{"height":"1"},"data":{"txs":[]}}}}`)
		}
	})
	var all sync.WaitGroup
	for height := range int64(reads) {
		all.Go(func() { _, _, _ = p.Executed(within(t, time.Minute), "client", height+1, 1<<40) })
	}
	expect.Eventually(t, "all reads to wait or to be in flight", func() bool {
		return now.Load()+int32(p.endpoints()[0].queue.Load().Waiting) >= reads
	})
	close(gate)
	all.Wait()
	if got := most.Load(); got > inFlight {
		t.Errorf("most reads in flight = %d, want at most %d", got, inFlight)
	}
}

func TestFloodOfReadsOfExecutionBlocksDelaysNoOtherClient(t *testing.T) {
	t.Parallel()
	const flood, other, tip = 20, 50, 100 // all clients share the read of the tip
	n := newFakeNode(t, tip)
	n.executionAhead = 1000
	p := run(t, Options{Settings: Settings{InFlight: 1}, Queue: time.Minute, BlockInterval: time.Minute}, n)
	wantTip(t, p, tip)
	slots, turn := occupy(t, p, 0)
	var all sync.WaitGroup
	read := func(client string, height int64) {
		all.Go(func() { _, _, _ = p.Executed(within(t, time.Minute), client, height, 1<<40) })
	}
	for height := range int64(flood) {
		read("flood", height+1)
	}
	expect.EventuallyAtLeast(t, "the flood to wait", func() int { return slots.Load().Waiting }, flood)
	read("flood", tip)
	read("other", other)
	expect.EventuallyAtLeast(t, "all reads to wait", func() int { return slots.Load().Waiting }, flood+2)
	turn.End(false)
	all.Wait()
	for _, height := range []int64{other, tip} {
		if before := slices.Index(n.blocks, height); before < 0 || before > 2 {
			t.Errorf("reads before that of block %d = %d, want at most 2", height, before)
		}
	}
}

func TestReadOfExecutionBlockIsNotSharedByEpochsOrClients(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	n.executionAhead = 1000
	p := run(t, Options{Settings: Settings{InFlight: 1}, Queue: time.Minute, BlockInterval: time.Minute}, n)
	slots, turn := occupy(t, p, 0)
	var all sync.WaitGroup
	for epoch, client := range []string{"client", "client", "another"} {
		all.Go(func() { _, _ = p.fetchExecuted(within(t, time.Minute), client, int64(epoch%2), 90) })
	}
	expect.EventuallyAtLeast(t, "three reads to wait", func() int { return slots.Load().Waiting }, 3)
	turn.End(false)
	all.Wait()
	expect.NoDiff(t, n.blocks, []int64{90, 90, 90}, "blocks read")
}

// occupy acquires a slot of the n-th endpoint. No endpoint is probed from then on.
func occupy(t *testing.T, p *Pool, n int) (*queue.Slots, *queue.Turn) {
	t.Helper()
	waitForProbes(t, p)
	for _, e := range p.endpoints() {
		e.update(func(v *view) { v.answered = time.Now().Add(time.Hour) })
	}
	slots := p.endpoints()[n].queue
	return slots, expect.Value(slots.Acquire(t.Context(), queue.Request{Cost: Page}))(t)
}

// Another replica reads a block before the node of this one has it.
func TestExecutedWaitsForABlockThatTheNodeLacks(t *testing.T) {
	n := newFakeNode(t, 100)
	n.executionAhead = 1000
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	n.change(func() {
		n.frontRPC, n.front = true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"height 100 must be less than or equal to the current blockchain height 99"}}`)
		}
	})
	_, _, err := p.Executed(within(t, 100*time.Millisecond), "client", 100, 1050)
	wantKind(t, err, upstream.Timeout)
	time.AfterFunc(200*time.Millisecond, func() { n.change(func() { n.front = nil }) })
	since, newest, err := p.Executed(within(t, time.Minute), "client", 100, 1050)
	if since != 100 || newest != 1099 || err != nil {
		t.Errorf("Executed = %d, %d, %v; want 100, 1099 once the node has the block", since, newest, err)
	}
}

func TestExecutedAsksTheNodeThatHasTheBlockFirst(t *testing.T) {
	behind, current := newFakeNode(t, 99), newFakeNode(t, 100)
	current.executionAhead = 1000
	p := run(t, Options{BlockInterval: time.Minute}, behind, current)
	wantTip(t, p, 100)
	since, newest, err := p.Executed(within(t, time.Minute), "client", 100, 1050)
	if since != 100 || newest != 1099 || err != nil {
		t.Errorf("Executed = %d, %d, %v; want 100, 1099", since, newest, err)
	}
	behind.change(func() { expect.Equal(t, len(behind.blocks), 0, "blocks that the other node was asked for") })
}

// A panic in a goroutine that nothing recovers would end the process.
func TestPanicWhileAnExecutionBlockIsReadIsAnError(t *testing.T) {
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://127.0.0.1:1"}}})
	p.protocol = nil // makes the read panic
	if _, _, err := p.Executed(within(t, time.Minute), "client", 100, 1); !errors.Is(err, upstream.ErrPanicked) {
		t.Errorf("Executed = %v, want %v", err, upstream.ErrPanicked)
	}
}
