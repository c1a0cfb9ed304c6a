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
		each    int // more clients with a request each
		asks    Request
		want    time.Duration
	}{
		"nobody waits":                                {nil, 0, page, 10 * time.Millisecond},
		"behind its own":                              {[]group{own("a", 100, page)}, 0, Request{Client: "a", Cost: Page}, 260 * time.Millisecond},
		"behind the many of one other":                {[]group{own("a", 400, page)}, 0, Request{Client: "b", Cost: Page}, 15 * time.Millisecond},
		"behind one each of many":                     {nil, 200, page, 510 * time.Millisecond},
		"in the background, behind many":              {nil, 200, background, 20 * time.Millisecond},
		"before many of the background":               {[]group{own("a", 400, background)}, 0, page, 15 * time.Millisecond},
		"behind its own, beside another's":            {[]group{own("a", 50, page), own("b", 50, page)}, 0, Request{Client: "a", Cost: Page}, 260 * time.Millisecond},
		"a miss, before what its client asks besides": {[]group{own("a", 100, page)}, 0, Request{Client: "a", Cost: Page, Miss: true}, 15 * time.Millisecond},
		"a miss, behind misses":                       {[]group{own("a", 50, page), own("a", 90, miss)}, 0, Request{Client: "a", Cost: Page, Miss: true}, 310 * time.Millisecond},
		"behind some of the misses":                   {[]group{own("a", 10, page), own("a", 200, miss)}, 0, Request{Client: "a", Cost: Page}, 120 * time.Millisecond},
		"a scan behind scans":                         {[]group{own("a", 3, Request{Cost: Scan})}, 0, Request{Client: "a", Cost: Scan}, 350 * time.Millisecond},
		"an item behind what scans wait":              {[]group{own("a", 30, Request{Cost: Scan})}, 0, Request{Client: "a", Cost: Page}, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newSlowNode(100)
				n.Slots, n.takes = few(4, time.Hour), 10*time.Millisecond
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
				for i := range tt.each {
					go n.read(Request{Client: fmt.Sprint(i), Cost: Page})
				}
				synctest.Wait()
				expected, begun := n.Expected(tt.asks), time.Now()
				n.read(tt.asks)
				took := time.Since(begun)
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
		s := few(4, time.Hour)
		turn := expect.Value(s.Acquire(t.Context(), Request{Cost: Page}))(t)
		time.Sleep(3 * time.Second)
		if got := s.Expected(Request{Cost: Page}); got != 3*time.Second {
			t.Errorf("Expected = %v, want 3s", got)
		}
		expect.Equal(t, s.Expected(Request{Cost: Cheap}), 0, "Expected for another cost")
		turn.End(false)
		expect.Equal(t, s.Expected(Request{Cost: Page}), 0, "Expected after the request has ended")
	})
}

func TestExpectedForgetsOldDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := few(4, time.Hour)
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
		if got := s.Expected(Request{Cost: Page}); got != time.Millisecond {
			t.Errorf("expected wait = %v after a read of 1 ms, want 1ms", got)
		}
	})
}

func TestExpectedWeighsOneReadByAnEighth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := few(4, time.Hour)
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
