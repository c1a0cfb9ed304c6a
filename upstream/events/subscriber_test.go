package events_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestClosedSubscriberLeavesNoSubscription(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		closed := w.feed.Subscriber(5, func() {})
		closed.Close()
		if err := closed.Subscribe(blocks, nil); err == nil {
			t.Error("Subscribe after Close = nil, want an error")
		}
		for range 500 {
			var works sync.WaitGroup
			s := w.feed.Subscriber(5, func() {})
			works.Go(func() {
				for i := range 5 {
					_ = s.Subscribe(fmt.Sprintf("tm.event='NewBlock' AND x.y=%d", i), nil)
				}
			})
			works.Go(s.Close)
			works.Wait()
		}
		synctest.Wait()
		expect.Equal(t, w.nodes[0].open(), 0, "streams at the node after all subscribers closed")
		if offered := w.feed.Publish(&events.Event{Kind: events.NewBlock, Tags: map[string][]string{"tm.event": {events.NewBlock}, "x.y": {"1", "2", "3"}}}); offered != 0 {
			t.Errorf("event was offered to %d subscriptions, want 0", offered)
		}
	})
}

func TestEventThatHasAValueTwiceIsOfferedOnce(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		w.listen("x.y='1'")
		for range 2 {
			event := &events.Event{Kind: events.NewBlock, Tags: map[string][]string{"x.y": {"1", "1"}}}
			expect.Equal(t, w.feed.Publish(event), 1, "subscriptions to which the event was offered")
		}
	})
}

func TestUnreadMessagesUseTheirPartOfMemory(t *testing.T) {
	memory := account.New(16<<20, nil)
	feed := events.New(events.Options{Heights: newChain(0), Nodes: func() []events.Node { return nil }, Memory: memory})
	var slow []*listener
	for range 12 {
		s := &listener{Subscriber: feed.Subscriber(20, func() {})}
		for i := range 20 {
			expect.NoError(t, s.Subscribe(fmt.Sprintf("x.y>%d", i), "slow"))
		}
		slow = append(slow, s)
	}
	publish := func(count int) {
		for range count {
			feed.Publish(&events.Event{Kind: events.Tx, Tags: map[string][]string{"x.y": {"99"}}})
		}
	}
	before := memory.Used()
	publish(10)
	if each := (memory.Used() - before) / (10 * 12 * 20); each < 100 {
		t.Errorf("reserved memory of a message = %d bytes, want 100 or more", each)
	}
	publish(140)
	if most := before + memory.Limit()/4; memory.Used() > most {
		t.Errorf("reserved bytes = %d, want at most %d", memory.Used(), most)
	}
	canceled := 0
	for _, s := range slow {
		if s.drain(t.Context()); slices.Contains(s.texts, "slow: internal subscription event buffer is out of capacity") {
			canceled++
		}
		s.Close()
	}
	if canceled == 0 || canceled > len(slow)/2 {
		t.Errorf("canceled subscribers = %d of %d, want those whose messages have no memory", canceled, len(slow))
	}
	expect.Equal(t, memory.Used(), 0, "reserved bytes after the subscribers were closed")
}

// Each costly query compares a value of millions of digits many times.
func TestCostlyQueriesDelayNoOtherEvent(t *testing.T) {
	const costly, digits = 8, 4_000_000
	feed := events.New(events.Options{Heights: newChain(0), Nodes: func() []events.Node { return nil }})
	var evaluated atomic.Int32
	var subscribers []*events.Subscriber
	defer func() {
		for _, s := range subscribers {
			s.Close()
		}
	}()
	subscribe := func(query string, wake func(s *events.Subscriber)) *events.Subscriber {
		var s *events.Subscriber
		s = feed.Subscriber(1, func() { wake(s) })
		subscribers = append(subscribers, s)
		expect.NoError(t, s.Subscribe(query, query))
		return s
	}
	var all sync.WaitGroup
	for i := range costly {
		all.Add(1)
		subscribe(fmt.Sprintf("a.b>%d%s", i, strings.Repeat(" AND a.b>1", 40)), func(s *events.Subscriber) {
			go func() {
				defer all.Done()
				_, _ = s.Next(t.Context())
				evaluated.Add(1)
			}()
		})
	}
	woken := make(chan struct{})
	other := subscribe("tm.event='Tx' AND t.i='1'", func(*events.Subscriber) { close(woken) })
	feed.Publish(&events.Event{Kind: events.Tx, Tags: map[string][]string{"tm.event": {"Tx"}, "t.i": {"0"}, "a.b": {strings.Repeat("9", digits)}}})
	feed.Publish(&events.Event{Kind: events.Tx, Tags: map[string][]string{"tm.event": {"Tx"}, "t.i": {"1"}, "tx.height": {"101"}}})
	<-woken
	if n := evaluated.Load(); n == costly {
		t.Errorf("all %d costly queries were evaluated before the next event arrived, want the event first", n)
	}
	if m, ok := other.Next(t.Context()); !ok || text(m) != "Tx[101][1]" {
		t.Errorf("the other subscriber got %v, %v; want the second transaction", m, ok)
	}
	all.Wait()
}

// Costly and cheap queries share one order.
func TestSubscribersEventsKeepTheirOrder(t *testing.T) {
	inBubble(t, 1, events.Options{Queue: 50}, func(t *testing.T, w *world) {
		l := w.listen("a.b>0 AND a.b>1 AND a.b>2", blocks)
		var want []string
		for i := range 40 {
			tags := map[string][]string{"tm.event": {events.Tx}, "t.i": {fmt.Sprint(i)}, "a.b": {strings.Repeat("9", 100_000)}}
			if i%4 == 1 {
				tags["a.b"] = []string{"0" + strings.Repeat("0", 100_000)} // costs as much but does not match
			} else {
				want = append(want, fmt.Sprintf("Tx[][%d]", i))
			}
			w.feed.Publish(&events.Event{Kind: events.Tx, Tags: tags})
			w.feed.Publish(&events.Event{Kind: events.NewBlock, Height: int64(100 + i), Tags: map[string][]string{"tm.event": {events.NewBlock}}})
			want = append(want, fmt.Sprint("NewBlock ", 100+i))
		}
		w.expect(l, strings.Join(want, ", "))
	})
}
