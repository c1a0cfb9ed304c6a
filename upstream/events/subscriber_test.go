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
		closed := w.feed.Subscriber(events.Client{Limit: 5, Wake: func() {}})
		closed.Close()
		if err := closed.Subscribe(blocks, nil); err == nil {
			t.Error("Subscribe after Close = nil, want an error")
		}
		for range 500 {
			var works sync.WaitGroup
			s := w.feed.Subscriber(events.Client{Limit: 5, Wake: func() {}})
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
	for i := range 12 {
		s := &listener{Subscriber: feed.Subscriber(events.Client{Name: fmt.Sprint(i), Limit: 20, Wake: func() {}})}
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
	publish(100)
	if most := memory.Limit() / 4; memory.Used() > most {
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

func TestClientHasAShareOfTheMemoryForEvents(t *testing.T) {
	memory := account.New(16<<20, nil)
	feed := events.New(events.Options{Heights: newChain(0), Nodes: func() []events.Node { return nil }, Memory: memory})
	var all []*events.Subscriber
	subscribe := func(client events.Client, queries int) (failed int) {
		client.Limit, client.Wake = queries, func() {}
		s := feed.Subscriber(client)
		all = append(all, s)
		for i := range queries {
			if s.Subscribe(fmt.Sprintf("x.y>%d", i), client.Name) != nil {
				failed++
			}
		}
		return failed
	}
	for i := 0; subscribe(events.Client{Name: "one"}, 20) == 0; i++ {
		if i == 100 {
			t.Fatal("a client has 2,000 subscriptions, want them limited by its share of the memory")
		}
	}
	before := memory.Used()
	expect.Equal(t, subscribe(events.Client{Name: "other"}, 20), 0, "refused subscriptions of another client")
	expect.Equal(t, subscribe(events.Client{IsMany: true}, 20), 0, "refused subscriptions of a connection of many clients")
	each := memory.Used() - before
	for range 1000 {
		feed.Publish(&events.Event{Kind: events.Tx, Tags: map[string][]string{"x.y": {"99"}}})
		if open := all[len(all)-2:]; memory.Used() < before+each || !open[0].IsSubscribed() {
			t.Fatal("subscriptions of the others were canceled, want those of the client with the most unread events")
		}
		for _, s := range all[len(all)-2:] {
			for _, ok := s.Next(t.Context()); ok; _, ok = s.Next(t.Context()) {
			}
		}
	}
	for _, s := range all {
		s.Close()
	}
	expect.Equal(t, memory.Used(), 0, "reserved bytes after the subscribers were closed")
}

func TestLargestHolderOfEventsIsClosedFirst(t *testing.T) {
	memory := account.New(16<<20, nil)
	feed := events.New(events.Options{Heights: newChain(0), Nodes: func() []events.Node { return nil }, Memory: memory})
	closed := map[string]int{}
	refused := 0
	for i := 0; refused == 0; i++ {
		name := "many sockets"
		if i%10 == 0 {
			name = fmt.Sprint("client ", i)
		}
		var s *events.Subscriber
		s = feed.Subscriber(events.Client{Name: name, IsMany: false, Limit: 20, Wake: func() {}, End: func() {
			closed[name]++
			go s.Close()
		}})
		defer s.Close()
		for k := range 20 {
			if s.Subscribe(fmt.Sprintf("x.y>%d", k), nil) != nil && i%10 == 0 {
				refused++
			}
		}
	}
	memory.Reclaim(account.Events, <-memory.Short(account.Events))
	if len(closed) != 1 || closed["many sockets"] == 0 {
		t.Errorf("closed connections = %v, want only some of the client with the most", closed)
	}
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
		s = feed.Subscriber(events.Client{Limit: 1, Wake: func() { wake(s) }})
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
