package queue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slowNode answers in a time that grows with what it is asked beyond what it bears. Its
// fields change between two waits of a bubble.
type slowNode struct {
	*Slots
	takes          time.Duration
	bears          int           // requests at a time that it answers as quickly as one
	punctual, late func() int64  // headers since the beginning
	block          time.Duration // between two headers

	mu   sync.Mutex
	busy int
	most int
}

func newSlowNode(bears int) *slowNode {
	n := &slowNode{takes: 5 * time.Millisecond, bears: bears, block: time.Second}
	begun := time.Now()
	n.punctual, n.late = func() int64 { return int64(time.Since(begun) / n.block) }, func() int64 { return 0 }
	n.Slots = New(Options{Scans: 1, Patience: time.Hour, Headers: func() (punctual, late int64) { return n.punctual(), n.late() }})
	return n
}

// read waits for a turn, and asks.
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
	time.Sleep(takes * time.Duration(max(n.bears, n.enter(0))) / time.Duration(n.bears))
	n.enter(-1)
	turn.End(true)
}

func (n *slowNode) enter(some int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy += some
	n.most = max(n.most, n.busy)
	return n.busy
}

// flood has so many clients ask one thing after the other.
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

// block has a number of reads come at once, as with a block, and waits for the next one.
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
		t.Errorf("the limit is %v, want %v to %v", got, from, to)
	}
}

func TestTheLimitIsWhatTheNodeBears(t *testing.T) {
	for name, tt := range map[string]struct {
		cost     Cost
		bears    int
		from, to float64 // in lists
	}{
		"lists, as many as the bound":          {Page, 100, Most, Most},
		"items, twice as many":                 {Cheap, 100, Most, Most},
		"lists, until they take longer":        {Page, 8, 8, 16},
		"items, until they take longer":        {Cheap, 32, 16, 30},
		"a node that does one thing at a time": {Page, 1, Least, First + 1},
		"scans, which have slots of their own": {Scan, 100, First, First},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newSlowNode(tt.bears)
				n.wantLimit(t, First, First)
				n.blocks(20, Request{Cost: tt.cost}, 500)
				n.wantLimit(t, tt.from, tt.to)
				want := map[Cost]int{Cheap: MostRequests, Page: Most, Scan: 1}[tt.cost]
				if n.most > want {
					t.Errorf("%d requests at a time, want %d at most", n.most, want)
				}
			})
		})
	}
}

func TestTheLimitFollowsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		n.wantLimit(t, Most, Most)
		n.bears = 4
		n.blocks(3, Request{Cost: Page}, 500)
		n.wantLimit(t, Least, 8)
		n.bears = 64
		n.blocks(10, Request{Cost: Page}, 500)
		n.wantLimit(t, Most, Most)
	})
}

// A node that others ask as well is slow whatever it is asked: what reads take then is
// learned, and the limit grows again.
func TestANodeThatIsSlowerFromNowOnIsNotSparedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		n.takes *= 4
		n.flood(Request{Cost: Page}, 50, 2*time.Second)
		n.blocks(40, Request{Cost: Page}, 500)
		n.wantLimit(t, Most, Most)
	})
}

// A node that is slower for another cause is not quicker for being asked less.
func TestTheLimitFallsNoFurtherThanIsOfUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		for range 5 {
			n.takes *= 3 // while it executes a block
			n.flood(Request{Cost: Page}, 100, 500*time.Millisecond)
			n.wantLimit(t, Most/2, Most)
			n.takes /= 3
			n.flood(Request{Cost: Page}, 100, time.Second)
			n.wantLimit(t, Most-4, Most)
		}
	})
}

// All that is under way is late while the machine collects garbage or does other work.
func TestAHiccupDoesNotLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		for i := range 20 {
			n.takes *= 4
			n.flood(Request{Cost: Page}, 100, 40*time.Millisecond)
			n.takes /= 4
			n.flood(Request{Cost: Page}, 100, 100*time.Millisecond+time.Duration(i)*time.Millisecond)
			n.wantLimit(t, Most, Most)
		}
	})
}

func TestHeadersThatComeLateLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.flood(Request{Cost: Page}, 100, 5*time.Second)
		n.wantLimit(t, Most, Most)
		begun := time.Now()
		punctual := n.punctual()
		n.punctual, n.late = func() int64 { return punctual }, func() int64 { return int64(time.Since(begun) / n.block) }
		n.flood(Request{Cost: Page}, 100, 1500*time.Millisecond)
		n.wantLimit(t, Most*fall, Most*fall) // once a header
		n.flood(Request{Cost: Page}, 100, 20*time.Second)
		n.wantLimit(t, Least, Least+1)
		late, again := n.late(), time.Now()
		n.punctual, n.late = func() int64 { return punctual + int64(time.Since(again)/n.block) }, func() int64 { return late }
		n.flood(Request{Cost: Page}, 100, 5500*time.Millisecond)
		n.wantLimit(t, Least+4, Least+7) // one a block
	})
}

// What is late while little is asked is late for another cause.
func TestHeadersThatComeLateAnywayDoNotLowerTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		begun := time.Now()
		n.late = func() int64 { return int64(time.Since(begun) / n.block) }
		n.flood(Request{Cost: Page}, 1, 20*time.Second)
		n.wantLimit(t, First, First)
	})
}

func TestALimitThatIsSetStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cost := range []Cost{Cheap, Page} {
			n := newSlowNode(1)
			n.Slots = few(8, time.Hour)
			n.blocks(5, Request{Cost: cost}, 200)
			if n.wantLimit(t, 8, 8); n.most != 8 {
				t.Errorf("%d %s requests at a time, want 8", n.most, cost)
			}
		}
	})
}

// A burst of scans has one of them run at a time, and holds up neither items nor lists.
func TestScansHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		var scans sync.WaitGroup
		for range 100 {
			scans.Go(func() { n.read(Request{Client: "scans", Cost: Scan}) })
		}
		synctest.Wait()
		for _, cost := range []Cost{Cheap, Page} {
			if wait := n.Expected(Request{Client: "other", Cost: cost}); wait != 0 {
				t.Errorf("a wait of %v is expected", wait)
			}
			begun := time.Now()
			n.read(Request{Client: "other", Cost: cost})
			if took := time.Since(begun); took != n.takes {
				t.Errorf("a %s request took %v", cost, took)
			}
		}
		if scans.Wait(); n.most > 2 {
			t.Errorf("%d requests at a time", n.most)
		}
	})
}
