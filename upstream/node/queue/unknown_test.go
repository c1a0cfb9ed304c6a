package queue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// Unknown requests that never end use a quarter of the slots and do not affect other requests.
func TestUnknownRequestsUseAQuarterOfTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		turns := make(chan *Turn, 100)
		for range 100 {
			go func() {
				if turn, err := s.Acquire(ctx, Request{Client: "scanner", Cost: Unknown}); err == nil {
					turns <- turn
				}
			}()
		}
		synctest.Wait()
		expect.Equal(t, len(turns), 2, "unknown requests in the 8 slots")
		time.Sleep(10 * time.Second)
		expect.Equal(t, s.Expected(Request{Client: "other", Cost: Page}), 0, "expected wait of a page")
		if !s.Spare() {
			t.Error("Spare = false, want capacity for reads ahead")
		}
		for range 6 {
			expect.Value(s.Acquire(ctx, Request{Client: "other", Cost: Page}))(t)
		}
		(<-turns).End(true)
		synctest.Wait()
		expect.Equal(t, len(turns), 2, "unknown requests in slots after one has ended")
		cancel()
		synctest.Wait()
	})
}

func TestUnknownRequestsGetEveryFourthSlotWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4, time.Hour)
		var mu sync.Mutex
		var order []Cost
		start := func(cost Cost, requests int) {
			for range requests {
				go func() {
					turn, err := s.Acquire(t.Context(), Request{Client: cost.String(), Cost: cost})
					if err != nil {
						return
					}
					mu.Lock()
					order = append(order, cost)
					mu.Unlock()
					time.Sleep(time.Second)
					turn.End(true)
				}()
				synctest.Wait()
			}
		}
		start(Page, 20)
		start(Unknown, 20)
		time.Sleep(time.Hour)
		synctest.Wait()
		unknown := 0
		for _, cost := range order[:20] {
			if cost == Unknown {
				unknown++
			}
		}
		if unknown < 3 || unknown > 5 || len(order) != 40 {
			t.Errorf("unknown requests in the first 20 of %[2]d slots = %[1]d, want about 4: %[3]v", unknown, len(order), order)
		}
	})
}

func TestUnknownRequestsDoNotCountForDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNode(64)
		n.blocks(10, Request{Cost: Page}, 500)
		n.wantLimit(t, maxLimit, maxLimit)
		n.takes = time.Minute
		n.flood(Request{Cost: Unknown, Client: "scanner"}, 100, time.Hour)
		n.takes = 5 * time.Millisecond
		n.wantLimit(t, maxLimit, maxLimit)
		if got := n.Expected(Request{Cost: Page}); got > 10*time.Millisecond {
			t.Errorf("expected wait of a page after slow unknown requests = %v, want the duration of a page", got)
		}
	})
}
