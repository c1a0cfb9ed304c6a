package queue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A slowNode takes longer the more its load exceeds its capacity. Tests change its fields while all goroutines are idle.
type slowNode struct {
	*Slots
	takes          time.Duration // duration of a read below the capacity
	capacity       int           // concurrent requests without a delay
	punctual, late func() int64  // number of headers so far
	block          time.Duration // between two headers

	mu   sync.Mutex
	busy int
	most int
}

func newSlowNode(capacity int) *slowNode {
	n := &slowNode{takes: 5 * time.Millisecond, capacity: capacity, block: time.Second}
	start := time.Now()
	n.punctual, n.late = func() int64 { return int64(time.Since(start) / n.block) }, func() int64 { return 0 }
	n.Slots = New(Options{MaxWait: time.Hour, Headers: func() (punctual, late int64) { return n.punctual(), n.late() }})
	return n
}

// read waits for a turn and reads from the node.
func (n *slowNode) read(r Request) {
	turn, err := n.Acquire(context.Background(), r)
	if err != nil {
		panic(err)
	}
	n.enter(1)
	takes := n.takes
	if r.Cost == Scan {
		takes *= 10
	}
	time.Sleep(takes * time.Duration(max(n.capacity, n.enter(0))) / time.Duration(n.capacity))
	n.enter(-1)
	turn.End(true)
}

// enter adds requests to those in progress, and returns their number.
func (n *slowNode) enter(requests int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy += requests
	n.most = max(n.most, n.busy)
	return n.busy
}

// flood starts clients that send sequential requests.
func (n *slowNode) flood(r Request, clients int, d time.Duration) {
	var all sync.WaitGroup
	for end := time.Now().Add(d); clients > 0; clients-- {
		all.Go(func() {
			for time.Now().Before(end) {
				n.read(r)
			}
		})
	}
	all.Wait()
}

// blocks starts a number of reads at once after each of count blocks.
func (n *slowNode) blocks(count int, r Request, reads int) {
	for range count {
		var all sync.WaitGroup
		for range reads {
			all.Go(func() { n.read(r) })
		}
		all.Wait()
		time.Sleep(n.block)
	}
}

func (n *slowNode) wantLimit(t *testing.T, from, to float64) {
	t.Helper()
	if got := n.Load().Limit; got < from || got > to {
		t.Errorf("limit = %v, want %v to %v", got, from, to)
	}
}

func TestLimitFindsTheNodesCapacity(t *testing.T) {
	for name, tt := range map[string]struct {
		cost     Cost
		capacity int
		from, to float64 // in lists
	}{
		"lists up to the bound":           {Page, 100, maxLimit, maxLimit},
		"items up to the bound":           {Cheap, 100, maxLimit, maxLimit},
		"lists until they take longer":    {Page, 8, 8, 16},
		"items until they take longer":    {Cheap, 32, 16, 30},
		"node with one request at a time": {Page, 1, minLimit, firstLimit + 1},
		"scans have slots of their own":   {Scan, 100, firstLimit, firstLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newSlowNode(tt.capacity)
				n.wantLimit(t, firstLimit, firstLimit)
				n.blocks(20, Request{Cost: tt.cost}, 500)
				n.wantLimit(t, tt.from, tt.to)
				want := map[Cost]int{Cheap: MaxRequests, Page: maxLimit, Scan: 1}[tt.cost]
				if n.most > want {
					t.Errorf("concurrent requests = %d, want at most %d", n.most, want)
				}
			})
		})
	}
}

func TestLimitFollowsTheNodesCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		n.wantLimit(t, maxLimit, maxLimit)
		n.capacity = 4
		n.blocks(3, Request{Cost: Page}, 500)
		n.wantLimit(t, minLimit, 8)
		n.capacity = 64
		n.blocks(10, Request{Cost: Page}, 500)
		n.wantLimit(t, maxLimit, maxLimit)
	})
}

// A node with other clients is slow at any load. The base durations are learned again, and the limit grows again.
func TestLimitRecoversAfterTheNodeBecomesSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		n.takes *= 4
		n.flood(Request{Cost: Page}, 50, 2*time.Second)
		n.blocks(40, Request{Cost: Page}, 500)
		n.wantLimit(t, maxLimit, maxLimit)
	})
}

func TestBaseDurationOfAClassIsLearnedFromItsFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Cheap}, 500)
		n.takes *= 4
		n.flood(Request{Cost: Cheap}, 100, 4*time.Second) // its base duration is learned again
		n.blocks(8, Request{Cost: Page}, 500)
		n.wantLimit(t, maxLimit, maxLimit)
	})
}

// Fewer requests do not help a node that is slow for another reason.
func TestLimitStopsFallingWhenItDoesNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		for range 5 {
			n.takes *= 3 // while it executes a block
			n.flood(Request{Cost: Page}, 100, 500*time.Millisecond)
			n.wantLimit(t, maxLimit/2, maxLimit)
			n.takes /= 3
			n.flood(Request{Cost: Page}, 100, time.Second)
			n.wantLimit(t, maxLimit-4, maxLimit)
		}
	})
}

// All requests in flight are late while this machine collects garbage or is busy.
func TestSingleSlowWindowDoesNotLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		for i := range 20 {
			n.takes *= 4
			n.flood(Request{Cost: Page}, 100, 40*time.Millisecond)
			n.takes /= 4
			n.flood(Request{Cost: Page}, 100, 100*time.Millisecond+time.Duration(i)*time.Millisecond)
			n.wantLimit(t, maxLimit, maxLimit)
		}
	})
}

func TestLateHeadersLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.flood(Request{Cost: Page}, 100, 5*time.Second)
		n.wantLimit(t, maxLimit, maxLimit)
		start := time.Now()
		punctual := n.punctual()
		n.punctual, n.late = func() int64 { return punctual }, func() int64 { return int64(time.Since(start) / n.block) }
		n.flood(Request{Cost: Page}, 100, 1500*time.Millisecond)
		n.wantLimit(t, maxLimit*fall, maxLimit*fall) // falls once per header
		n.flood(Request{Cost: Page}, 100, 20*time.Second)
		n.wantLimit(t, minLimit, minLimit+1)
		late, again := n.late(), time.Now()
		n.punctual, n.late = func() int64 { return punctual + int64(time.Since(again)/n.block) }, func() int64 { return late }
		n.flood(Request{Cost: Page}, 100, 5500*time.Millisecond)
		n.wantLimit(t, minLimit+4, minLimit+7) // grows by one per block
	})
}

// Headers that are late under low load are late for another reason.
func TestLateHeadersUnderLowLoadDoNotLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		start := time.Now()
		n.late = func() int64 { return int64(time.Since(start) / n.block) }
		n.flood(Request{Cost: Page}, 1, 20*time.Second)
		n.wantLimit(t, firstLimit, firstLimit)
	})
}

func TestFixedLimitStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cost := range []Cost{Cheap, Page} {
			n := newSlowNode(1)
			n.Slots = newSlots(8, time.Hour)
			n.blocks(5, Request{Cost: cost}, 200)
			if n.wantLimit(t, 8, 8); n.most != 8 {
				t.Errorf("concurrent %[2]s requests = %[1]d, want 8", n.most, cost)
			}
		}
	})
}

// In a burst of scans, one scan runs at a time, and items and lists are not delayed.
func TestScansDoNotBlockOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		var scans sync.WaitGroup
		for range 100 {
			scans.Go(func() { n.read(Request{Client: "scans", Cost: Scan}) })
		}
		synctest.Wait()
		for _, cost := range []Cost{Cheap, Page} {
			expect.Equal(t, n.Expected(Request{Client: "other", Cost: cost}), 0, "expected wait of a %s request behind scans", cost)
			start := time.Now()
			n.read(Request{Client: "other", Cost: cost})
			if took := time.Since(start); took != n.takes {
				t.Errorf("%s request took %v, want %v without a wait behind scans", cost, took, n.takes)
			}
		}
		if scans.Wait(); n.most > 2 {
			t.Errorf("concurrent requests = %d, want at most one scan and one other request", n.most)
		}
	})
}
