package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// The expected wait is compared with the duration of a request that begins at that moment.
func TestExpectedEqualsTheActualWait(t *testing.T) {
	const slack = 60 * time.Millisecond
	type group struct {
		requests int
		Request
	}
	own := func(client string, n int, r Request) group { r.Client = client; return group{n, r} }
	page, miss, background := Request{Cost: Page}, Request{Cost: Page, Miss: true}, Request{Cost: Page, Background: true}
	for name, tt := range map[string]struct {
		waiting []group
		clients int // more clients with one request each
		request Request
		want    time.Duration
	}{
		"empty queue":                              {nil, 0, page, 10 * time.Millisecond},
		"behind own requests":                      {[]group{own("a", 100, page)}, 0, Request{Client: "a", Cost: Page}, 260 * time.Millisecond},
		"behind many requests of one other":        {[]group{own("a", 400, page)}, 0, Request{Client: "b", Cost: Page}, 15 * time.Millisecond},
		"behind one request of each of many":       {nil, 200, page, 510 * time.Millisecond},
		"background behind many clients":           {nil, 200, background, 20 * time.Millisecond},
		"before many background requests":          {[]group{own("a", 400, background)}, 0, page, 15 * time.Millisecond},
		"behind own requests and those of another": {[]group{own("a", 50, page), own("b", 50, page)}, 0, Request{Client: "a", Cost: Page}, 260 * time.Millisecond},
		"miss before other requests of its client": {[]group{own("a", 100, page)}, 0, Request{Client: "a", Cost: Page, Miss: true}, 15 * time.Millisecond},
		"miss behind misses":                       {[]group{own("a", 50, page), own("a", 90, miss)}, 0, Request{Client: "a", Cost: Page, Miss: true}, 310 * time.Millisecond},
		"behind some of the misses":                {[]group{own("a", 10, page), own("a", 200, miss)}, 0, Request{Client: "a", Cost: Page}, 120 * time.Millisecond},
		"page while unknown requests use a slot":   {[]group{own("a", 20, Request{Cost: Unknown}), own("b", 99, page)}, 0, Request{Client: "b", Cost: Page}, 340 * time.Millisecond},
		"scan behind scans":                        {[]group{own("a", 3, Request{Cost: Scan})}, 0, Request{Client: "a", Cost: Scan}, 350 * time.Millisecond},
		"page behind waiting scans":                {[]group{own("a", 30, Request{Cost: Scan})}, 0, Request{Client: "a", Cost: Page}, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newSlowNode(100)
				n.Slots, n.takes = newSlots(4, time.Hour), 10*time.Millisecond
				for range 20 { // to learn the duration of reads
					n.read(page)
					n.read(Request{Cost: Scan})
				}
				for _, g := range tt.waiting {
					for range g.requests {
						go n.read(g.Request)
						synctest.Wait()
					}
				}
				for i := range tt.clients {
					go n.read(Request{Client: fmt.Sprint(i), Cost: Page})
				}
				synctest.Wait()
				expected, start := n.Expected(tt.request), time.Now()
				n.read(tt.request)
				took := time.Since(start)
				if d := expected - tt.want; d < -slack || d > slack {
					t.Errorf("Expected = %v, want %v", expected, tt.want)
				}
				if d := expected - took; d < -slack || d > slack {
					t.Errorf("Expected = %v, want the actual duration %v", expected, took)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestExpectedGrowsWhileNoRequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4, time.Hour)
		turn := expect.Value(s.Acquire(t.Context(), Request{Cost: Page}))(t)
		time.Sleep(3 * time.Second)
		expect.Equal(t, s.Expected(Request{Cost: Page}), 3*time.Second, "Expected while the request runs")
		expect.Equal(t, s.Expected(Request{Cost: Cheap}), 0, "Expected for another cost")
		turn.End(false)
		expect.Equal(t, s.Expected(Request{Cost: Page}), 0, "Expected after the request has ended")
	})
}

func TestExpectedForgetsOldDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4, time.Hour)
		for range 20 {
			turn := expect.Value(s.Acquire(t.Context(), Request{Cost: Page}))(t)
			time.Sleep(4 * time.Second)
			turn.End(true)
		}
		if got := s.Expected(Request{Cost: Page}); got < 3*time.Second {
			t.Errorf("expected wait = %v right after reads of 4 s, want 3 s or more", got)
		}
		time.Sleep(10 * time.Second)
		expect.Equal(t, s.Expected(Request{Cost: Page}), 0, "expected wait 10 s later")
		turn := expect.Value(s.Acquire(t.Context(), Request{Cost: Page}))(t)
		time.Sleep(time.Millisecond)
		turn.End(true)
		expect.Equal(t, s.Expected(Request{Cost: Page}), time.Millisecond, "expected wait after a read of 1 ms")
	})
}

func TestExpectedWeighsOneReadByAnEighth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4, time.Hour)
		for _, step := range []struct{ took, want time.Duration }{
			{time.Second, time.Second},
			{1800 * time.Millisecond, 1100 * time.Millisecond},
			{300 * time.Millisecond, time.Second},
		} {
			turn := expect.Value(s.Acquire(t.Context(), Request{Cost: Page}))(t)
			time.Sleep(step.took)
			turn.End(true)
			expect.Equal(t, s.Expected(Request{Cost: Page}), step.want, "expected wait after a read of %v", step.took)
		}
	})
}
