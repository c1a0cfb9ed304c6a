package events_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

const (
	blocks = "tm.event='NewBlock'"
	txs    = "tm.event='Tx'"
	all    = "tm.event EXISTS"
)

// vote is a node's message of a consensus event.
const vote = `{"query":"q","data":{"type":"tendermint/event/Vote","value":{"Vote":{}}},"events":{"tm.event":["Vote"]}}`

func (w *world) expect(l *listener, want string) {
	w.t.Helper()
	expect.Equal(w.t, l.received(), want, "received")
}

func TestBlockIsAnnouncedOnceWhenReadable(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(101)
		w.expect(l, "")
		w.move(101, 0)
		w.expect(l, "NewBlock 101")
		w.nodes[0].announce(101)
		w.nodes[0].announce(102)
		w.nodes[0].announce(103)
		w.move(102, 0)
		w.expect(l, "NewBlock 102")
		w.move(103, 0)
		w.expect(l, "NewBlock 103")
		if calls := w.nodes[0].calls; len(calls) > 0 {
			t.Errorf("calls to the node = %v, want none", calls)
		}
	})
}

func TestUnannouncedBlockIsRead(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks, txs)
		synctest.Wait()
		w.txs[101] = 2
		w.move(101, 0)
		w.expect(l, "")
		time.Sleep(time.Second)
		w.expect(l, "NewBlock 101, Tx[101][0], Tx[101][1]")
		w.move(104, 0)
		w.nodes[0].announce(104) // 102 and 103 were not announced
		w.expect(l, "NewBlock 102, NewBlock 103, NewBlock 104")
	})
}

func TestBlockWhoseReadPanicsIsSkipped(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		for _, panics := range []bool{true, false} {
			for _, n := range w.nodes {
				n.with(func(n *node) { n.panics = panics })
			}
			w.move(w.Tip().Height+1, 0)
			time.Sleep(5 * time.Second)
		}
		w.expect(l, "NewBlock 102")
	})
}

func TestEventsKeepTheNodesOrder(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(all)
		synctest.Wait()
		w.txs[101] = 1
		w.nodes[0].send(vote)
		w.nodes[0].announce(101)
		w.nodes[0].send(strings.ReplaceAll(vote, "Vote", "NewBlockHeader")) // ignored: the feed builds it from the block
		w.nodes[0].send(strings.ReplaceAll(vote, "Vote", "NewRoundStep"))
		w.expect(l, "Vote")
		w.move(101, 0)
		w.expect(l, "NewBlock 101, NewBlockHeader 101, NewBlockEvents 101, Tx[101][0], NewRoundStep")
		if queries := w.nodes[0].queries; len(queries) != 1 || queries[0] != all {
			t.Errorf("queries at the node = %v, want %q once", queries, all)
		}
	})
}

func TestEachBlockIsAnnouncedOnceWhileNodesStopAndStart(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		var want []string
		for h := int64(101); h <= 160; h++ {
			synctest.Wait()
			a, b := w.nodes[0], w.nodes[1]
			switch h % 12 {
			case 2:
				a.stop()
			case 5:
				a.start()
			case 6:
				b.stop()
			case 7:
				a.stop()
			case 9:
				a.start()
				b.start()
			}
			if h%3 > 0 {
				a.announce(h)
			}
			b.announce(h)
			w.move(h, 0)
			time.Sleep(time.Second)
			want = append(want, fmt.Sprint("NewBlock ", h))
		}
		time.Sleep(time.Minute)
		w.expect(l, strings.Join(want, ", "))
	})
}

func TestRemovalOfANodeIsNoOutage(t *testing.T) {
	var log logtest.Log
	inBubble(t, 2, events.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, w *world) {
		w.listen(blocks)
		synctest.Wait()
		removed, other := w.nodes[0], w.nodes[1]
		removed.with(func(n *node) { n.cut = upstream.ErrRemoved })
		removed.stop()
		synctest.Wait()
		expect.Equal(t, other.open(), 1, "subscriptions at the other node, at once")
		expect.Equal(t, log.String(), "", "log")
	})
}

func TestNodeSubscriptionLastsWhileClientsSubscribe(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		listening := func(want int, query string) {
			t.Helper()
			synctest.Wait()
			w.nodes[0].with(func(n *node) {
				if len(n.streams) != want || want > 0 && n.queries[len(n.queries)-1] != query {
					t.Errorf("streams = %d, queries %v; want %d, last query %q", len(n.streams), n.queries, want, query)
				}
			})
		}
		listening(0, "")
		l := w.listen("tm.event='Tx' AND tx.height>5", "message.sender EXISTS")
		listening(1, blocks)
		votes := w.listen("tm.event='Vote'")
		time.Sleep(time.Second)
		listening(1, all)
		votes.Close()
		listening(1, all)
		time.Sleep(15 * time.Second)
		listening(1, blocks)
		l.Close()
		listening(0, "")
		w.move(200, 0)
		again := w.listen(blocks)
		time.Sleep(time.Second)
		listening(1, blocks)
		w.move(201, 0)
		time.Sleep(time.Second)
		w.expect(again, "NewBlock 201")
	})
}

func TestClientThatSubscribesAgainAndAgainStopsNoEvents(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		toggling := w.feed.Subscriber(events.Client{Limit: 5, Wake: func() {}})
		for range 500 {
			expect.NoError(t, toggling.Subscribe("tm.event='NewRoundStep'", nil))
			time.Sleep(5 * time.Millisecond)
			expect.NoError(t, toggling.UnsubscribeAll())
			time.Sleep(5 * time.Millisecond)
		}
		w.nodes[0].with(func(n *node) { expect.Equal(t, len(n.queries), 2, "subscriptions at the node") })
		w.move(101, 0)
		time.Sleep(time.Second)
		w.expect(l, "NewBlock 101")
	})
}

func TestFeedLeavesNodeThatAnnouncesUnrelatedBlocks(t *testing.T) {
	for name, misbehave := range map[string]func(w *world){
		"another chain":   func(w *world) { w.nodes[0].announceUnrelated("other") },
		"another history": func(w *world) { w.nodes[0].announceUnrelated("chain-1") },
		"a block that never becomes readable": func(w *world) {
			w.nodes[0].announce(5000)
			time.Sleep(10 * time.Second)
		},
		"an invalid message": func(w *world) { w.nodes[0].send(`{"events":5}`) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
				l := w.listen(blocks)
				synctest.Wait()
				w.nodes[0].announce(101)
				w.move(101, 0)
				misbehave(w)
				w.move(102, 0)
				time.Sleep(time.Second)
				w.expect(l, "NewBlock 101, NewBlock 102")
				if w.nodes[0].open() != 0 || w.nodes[1].open() != 1 {
					t.Errorf("streams at the nodes = %d and %d, want 0 and 1", w.nodes[0].open(), w.nodes[1].open())
				}
			})
		})
	}
}

// The votes and the block arrive before the node is known to follow another history.
func TestEventsOfALeftNodeAreDiscarded(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks, "tm.event='Vote'")
		synctest.Wait()
		w.nodes[0].announceUnrelated("chain-1")
		w.nodes[0].send(vote)
		synctest.Wait()
		w.move(102, 0)
		w.expect(l, "NewBlock 101, NewBlock 102") // read at once, because no node announces them
	})
}

// The feed drops the ended subscription of the first node only when its block has not become readable.
func TestBlockOfNewNodeIsNotReadAfterOldSubscriptionIsDropped(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(5000)
		synctest.Wait()
		w.nodes[0].stop()
		time.Sleep(10 * time.Second)
		expect.Equal(t, w.nodes[1].open(), 1, "streams at the other node")
		w.move(101, 0)
		synctest.Wait()
		w.nodes[1].announce(101)
		w.expect(l, "NewBlock 101")
		if calls := w.nodes[1].calls; len(calls) > 0 {
			t.Errorf("calls to the node that announced the block = %v, want none", calls)
		}
	})
}

func TestFeedLeavesSilentNode(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		for h := int64(101); h <= 110; h++ {
			w.move(h, 0)
			time.Sleep(time.Second)
		}
		expect.Equal(t, w.nodes[1].open(), 1, "streams at the other node")
		if got := l.received(); strings.Count(got, ",") != 9 {
			t.Errorf("received %s, want 10 blocks", got)
		}
	})
}

func TestBlockIsNotReadFirstFromTheNodeThatFellSilent(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		hangs := make(chan struct{})
		w.nodes[0].with(func(n *node) { n.blocked = hangs })
		w.move(101, 0)
		time.Sleep(time.Second)
		w.expect(l, "NewBlock 101")
		close(hangs)
	})
}

func TestTransactionIsAnnouncedWhenNodesFindIt(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		sender, reader := w.listen(txs, blocks), w.listen(blocks)
		synctest.Wait()
		w.txs[101] = 2
		w.nodes[1].indexed = 100
		announce := func(h int64) {
			w.nodes[0].announce(h)
			w.move(h, 0)
		}
		announce(101)
		announce(102)
		w.expect(sender, "NewBlock 101")
		w.expect(reader, "NewBlock 101, NewBlock 102") // does not wait for transactions
		w.nodes[1].with(func(n *node) { n.indexed = 102 })
		time.Sleep(200 * time.Millisecond)
		w.expect(sender, "Tx[101][0], Tx[101][1], NewBlock 102")
		searches := 0
		for _, call := range w.nodes[0].calls {
			searches += strings.Count(call, "tx{")
		}
		expect.Equal(t, searches, 1, "searches at the node with the index (%v)", w.nodes[0].calls)
	})
}

func TestTransactionWaitsForIndexWhileOthersSubscribe(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	inBubble(t, 1, events.Options{Registerer: registry}, func(t *testing.T, w *world) {
		l := w.listen(txs)
		synctest.Wait()
		w.txs[101], w.nodes[0].indexed = 1, 100
		w.nodes[0].announce(101)
		w.move(101, 0)
		synctest.Wait()
		votes := w.listen("tm.event='Vote'") // the feed subscribes to all events
		synctest.Wait()
		votes.Close() // and to blocks again
		w.expect(l, "")
		w.nodes[0].with(func(n *node) { n.indexed = 101 })
		time.Sleep(200 * time.Millisecond)
		w.expect(l, "Tx[101][0]")
	})
	expect.NoDiff(t, expect.Metrics(t, registry, "tipcache_events_unheld_total"), map[string]float64{}, "blocks by reason")
}

func TestWaitsForIndexEndWithTheFeed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	inBubble(t, 1, events.Options{Registerer: registry}, func(t *testing.T, w *world) {
		w.listen(txs)
		synctest.Wait()
		w.txs[101], w.nodes[0].indexed = 1, 100
		w.nodes[0].announce(101)
		w.move(101, 0)
		synctest.Wait()
	})
	expect.NoDiff(t, expect.Metrics(t, registry, "tipcache_events_unheld_total"), map[string]float64{}, "blocks by reason")
}

func TestTransactionIsAnnouncedAfterASecondAtTheLatest(t *testing.T) {
	for name, tt := range map[string]struct {
		node func(*node)
		wait time.Duration
	}{
		"the node never indexes it":  {func(n *node) { n.indexed = 0 }, time.Second},
		"the node has no index":      {func(n *node) { n.refusal = "transaction indexing is disabled" }, 0},
		"a gateway has no such call": {func(n *node) { n.refusal = "method not allowed" }, 0},
		"the node shuts down":        {func(n *node) { n.refusal = "leveldb: closed" }, time.Second},
		"the node does not respond":  {func(n *node) { n.down = true }, time.Second},
		"the node is not fit":        {func(n *node) { n.down, n.fit = true, false }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
				l := w.listen(txs)
				synctest.Wait()
				w.nodes[0].with(tt.node)
				w.txs[101] = 1
				w.nodes[0].announce(101)
				w.move(101, 0)
				if tt.wait > 0 {
					w.expect(l, "")
				}
				time.Sleep(tt.wait)
				w.expect(l, "Tx[101][0]")
			})
		})
	}
}

// A node that is stopped during a commit never indexes the block.
func TestUnindexedTransactionOfUnannouncedBlockIsAnnounced(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(txs)
		synctest.Wait()
		w.txs[101] = 1
		w.nodes[0].indexed = 100
		w.move(101, 0) // the node does not announce it
		w.expect(l, "")
		time.Sleep(3 * time.Second)
		w.expect(l, "Tx[101][0]")
	})
}

// The node stops after announcing the block. The other one, if any, has indexed it.
func TestTransactionIsAnnouncedWhileItsNodeIsDown(t *testing.T) {
	for _, others := range []int{0, 1} {
		inBubble(t, 1+others, events.Options{}, func(t *testing.T, w *world) {
			l := w.listen(txs)
			synctest.Wait()
			w.txs[101] = 1
			w.nodes[0].announce(101)
			w.nodes[0].with(func(n *node) { n.down = true })
			w.move(101, 0)
			if others == 0 {
				time.Sleep(300 * time.Millisecond)
				w.expect(l, "")
				w.nodes[0].with(func(n *node) { n.down, n.indexed = false, 0 })
				time.Sleep(time.Second)
			}
			w.expect(l, "Tx[101][0]")
		})
	}
}

func TestUnmatchedTransactionsAreNotSearched(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks, "tx.hash='A'")
		synctest.Wait()
		w.txs[101] = 5
		w.nodes[0].announce(101)
		w.move(101, 0)
		w.expect(l, "NewBlock 101")
		if calls := w.nodes[0].calls; len(calls) > 0 {
			t.Errorf("calls to the node = %v, want none", calls)
		}
	})
}

func TestBlocksAfterRollbackAreAnnounced(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(101)
		w.move(101, 0)
		w.nodes[0].announce(102)
		w.expect(l, "NewBlock 101")
		w.move(90, 1)
		w.fork(90)
		synctest.Wait()
		w.nodes[0].announce(91)
		w.move(91, 1)
		w.expect(l, "NewBlock 91")
	})
}

func TestBlocksBeforeARollbackIsProvedAreAnnounced(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(101)
		w.move(101, 0)
		w.expect(l, "NewBlock 101")
		w.fallTo(5)
		w.move(7, 1)
		time.Sleep(time.Second) // the feed waits for a node to announce block 7
		w.expect(l, "NewBlock 6, NewBlock 7")
		w.fallTo(0)
		w.move(3, 2)
		synctest.Wait()
		w.nodes[0].announce(4)
		w.move(4, 2)
		w.expect(l, "NewBlock 4")
	})
}

func TestFirstSubscriptionAfterARollbackBeginsAtTheTip(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		w.fallTo(95)
		w.move(97, 1)
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(98)
		w.move(98, 1)
		w.expect(l, "NewBlock 98")
	})
}

// For example, Redis is reached for the first time.
func TestNoBlockIsMissedIfTheNextEpochHasTheSameChain(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(101)
		w.move(101, 0)
		synctest.Wait()
		w.move(102, 0)
		synctest.Wait()
		w.move(102, 7)
		synctest.Wait()
		w.nodes[0].announce(102)
		w.move(103, 7)
		w.nodes[0].announce(103)
		w.expect(l, "NewBlock 101, NewBlock 102, NewBlock 103")
	})
}

func TestSubscriptionMissesNoBlockAfterTheTipWasTooHigh(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		w.move(110, 0) // no read has proved it
		l := w.listen(blocks)
		synctest.Wait()
		w.move(100, 0)
		synctest.Wait()
		w.nodes[0].announce(101)
		w.move(101, 0)
		w.expect(l, "NewBlock 101")
	})
}

func TestBlockIsSentOnceIfTheTipFallsAfterALostBlock(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		w.nodes[0].announce(101)
		w.move(101, 0)
		w.expect(l, "NewBlock 101")
		w.nodes[0].with(func(n *node) { n.pruned = 102 })
		w.move(102, 0)
		time.Sleep(time.Second) // block 102 is lost
		w.move(100, 0)
		synctest.Wait()
		w.nodes[0].announce(101) // as another node does that is behind
		w.move(101, 0)
		synctest.Wait()
		w.nodes[0].announce(102)
		w.move(102, 0)
		w.expect(l, "NewBlock 102") // if the tip were higher, the feed would read block 102 at once
		w.nodes[0].announce(103)
		w.move(103, 0)
		w.expect(l, "NewBlock 103")
	})
}

func TestBlockReadBeforeRollbackIsDiscarded(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks)
		synctest.Wait()
		blocked := make(chan struct{})
		w.nodes[0].with(func(n *node) { n.blocked = blocked })
		w.move(101, 0)
		time.Sleep(time.Second) // the feed begins to read block 101
		w.move(100, 1)
		w.nodes[0].with(func(n *node) { n.blocked = nil })
		close(blocked)
		w.expect(l, "")
		w.fork(101)
		w.nodes[0].announce(101)
		w.move(101, 1)
		w.expect(l, "NewBlock 101")
		w.nodes[0].announce(102)
		w.move(102, 1)
		w.expect(l, "NewBlock 102")
	})
}

// The feed takes 500 messages of the node before their blocks are readable. The old block 101 waits behind them.
func TestBlockReceivedBeforeRollbackIsDiscarded(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		l := w.listen(blocks, "tm.event='Vote'")
		synctest.Wait()
		before := len(w.nodes[0].queries) // one or two: the feed may subscribe between the two queries
		w.nodes[0].announce(102)
		for range 499 {
			w.nodes[0].send(vote)
		}
		w.nodes[0].announce(101)
		synctest.Wait()
		w.move(100, 1)
		w.fork(101)
		synctest.Wait()
		for h := int64(101); h <= 103; h++ {
			w.nodes[0].announce(h)
			w.move(h, 1)
			w.expect(l, fmt.Sprint("NewBlock ", h))
		}
		if calls := w.nodes[0].calls; len(calls) > 0 || len(w.nodes[0].queries) != before {
			t.Errorf("calls = %v, subscriptions = %d; want none and %d", calls, len(w.nodes[0].queries), before)
		}
	})
}

func TestPrunedBlocksAreSkippedUnlessAnUnfitNodeHasThem(t *testing.T) {
	for name, tt := range map[string]struct {
		unfit time.Duration // how long node 1, which has more blocks, is unfit
		want  string
	}{
		"all nodes are fit":              {0, "NewBlock 110, NewBlock 111, NewBlock 112"},
		"an unfit node becomes fit":      {20 * time.Second, "NewBlock 110, NewBlock 111, NewBlock 112"},
		"an unfit node becomes fit late": {40 * time.Second, "NewBlock 111, NewBlock 112"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
				l := w.listen(blocks)
				synctest.Wait()
				w.nodes[0].pruned, w.nodes[1].pruned = 110, 109
				w.nodes[1].with(func(n *node) { n.fit = tt.unfit == 0 })
				w.move(112, 0)
				time.Sleep(tt.unfit)
				w.nodes[1].with(func(n *node) { n.fit = true })
				time.Sleep(10 * time.Second)
				w.expect(l, tt.want)
			})
		})
	}
}

func TestBlockThatNoNodeProvidesHoldsBackOthersForAWhileOnly(t *testing.T) {
	for refusal, delay := range map[string]time.Duration{
		"node is not persisting finalize block responses": time.Second,
		"could not find results for height #101":          32 * time.Second,
	} {
		inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
			l := w.listen(blocks)
			w.nodes[0].with(func(n *node) { n.failing = refusal })
			synctest.Wait()
			w.move(101, 0) // not announced
			synctest.Wait()
			w.nodes[0].announce(102)
			w.move(102, 0)
			time.Sleep(delay)
			w.expect(l, "NewBlock 102")
		})
	}
}

func TestOneSlowClientUsesHalfOfTheMemoryForEvents(t *testing.T) {
	memory := account.New(1<<20, nil)
	inBubble(t, 1, events.Options{Memory: memory}, func(t *testing.T, w *world) {
		slow, fast := &listener{Subscriber: w.feed.Subscriber(events.Client{Limit: 5, Wake: func() {}})}, w.listen(blocks)
		expect.NoError(t, slow.Subscribe(blocks, "slow"))
		w.mu.Lock()
		w.size = 34 << 10
		w.mu.Unlock()
		for h := int64(101); h <= 104; h++ {
			synctest.Wait()
			w.nodes[0].announce(h)
			w.move(h, 0)
			synctest.Wait()
			if kept := memory.Used() > (h-100)*34<<10; kept != (h < 104) {
				t.Errorf("after block %d, %d bytes are reserved, want the unread events: %t", h, memory.Used(), !kept)
			}
		}
		w.expect(fast, "NewBlock 101, NewBlock 102, NewBlock 103, NewBlock 104")
		slow.drain(t.Context())
		w.expect(slow, "slow: internal subscription event buffer is out of capacity")
	})
}

func TestUnreadEventsUseTheirPartOfMemory(t *testing.T) {
	memory := account.New(3<<19, nil)
	inBubble(t, 1, events.Options{Memory: memory}, func(t *testing.T, w *world) {
		fast := w.listen(blocks)
		want, most, slow := "", int64(0), []*listener{}
		for h := int64(101); h <= 112; h++ {
			s := &listener{Subscriber: w.feed.Subscriber(events.Client{Name: fmt.Sprint(h), Limit: 5, Wake: func() {}})} // each keeps another transaction unread
			expect.NoError(t, s.Subscribe(fmt.Sprintf("tx.height=%d", h), "slow"))
			slow = append(slow, s)
		}
		for h := int64(101); h <= 112; h++ {
			w.mu.Lock()
			w.txs[h], w.results[raw(h, 0)] = 1, `{"code":0,"log":"`+strings.Repeat("x", 40<<10)+`"}`
			w.mu.Unlock()
			synctest.Wait()
			w.nodes[0].announce(h)
			w.move(h, 0)
			want += fmt.Sprintf(", NewBlock %d", h)
			synctest.Wait()
			most = max(most, memory.Used())
		}
		if part := memory.Limit() / 4; most < 200<<10 || most > part {
			t.Errorf("reserved bytes = %d at most, want up to %d", most, part)
		}
		w.expect(fast, want[2:])
		canceled := 0
		for _, s := range slow {
			if s.drain(t.Context()); strings.Contains(s.received(), "out of capacity") {
				canceled++
			}
		}
		if canceled < 4 || canceled > 8 {
			t.Errorf("canceled subscriptions = %d of %d, want those whose events have no room in a quarter of the memory", canceled, len(slow))
		}
		for _, s := range append(slow, fast) {
			s.Close()
		}
		expect.Equal(t, memory.Used(), 0, "reserved bytes after the last subscriber was closed")
	})
}

func TestEventLargerThanTheMemoryCancelsNoSubscription(t *testing.T) {
	inBubble(t, 1, events.Options{Memory: account.New(1<<20, nil)}, func(t *testing.T, w *world) {
		slow := &listener{Subscriber: w.feed.Subscriber(events.Client{Limit: 5, Wake: func() {}})}
		expect.NoError(t, slow.Subscribe("tx.height=101", "slow"))
		w.mu.Lock()
		w.txs[101], w.txs[102], w.results[raw(102, 0)] = 1, 1, `{"code":0,"log":"`+strings.Repeat("x", 300<<10)+`"}`
		w.mu.Unlock()
		for h := int64(101); h <= 103; h++ {
			synctest.Wait()
			w.nodes[0].announce(h)
			w.move(h, 0)
		}
		synctest.Wait()
		slow.drain(t.Context())
		if got := slow.received(); got == "" || strings.Contains(got, "out of capacity") {
			t.Errorf("received %q, want the transaction of block 101", got)
		}
	})
}

func TestSubscriptionsAreReserved(t *testing.T) {
	memory := account.New(896<<10, nil)
	inBubble(t, 1, events.Options{Memory: memory}, func(t *testing.T, w *world) {
		s := w.feed.Subscriber(events.Client{Limit: 20, Wake: func() {}})
		for i := range 20 {
			err := s.Subscribe(strings.Repeat("a<1 AND ", 60)+fmt.Sprintf("b=%d", i), nil)
			if full := i >= 2; (err != nil) != full {
				t.Errorf("subscription %d = %v, want an error: %t", i, err, full)
			}
		}
		expect.NoError(t, s.UnsubscribeAll())
		expect.Equal(t, memory.Used(), 0, "reserved bytes without subscriptions")
	})
}

func TestSlowSubscriptionEndsWithError(t *testing.T) {
	inBubble(t, 1, events.Options{Queue: 3}, func(t *testing.T, w *world) {
		slow := &listener{}
		slow.Subscriber = w.feed.Subscriber(events.Client{Limit: 5, Wake: func() {}})
		fast := w.listen(blocks)
		for _, q := range []string{blocks, "tm.event='Tx'"} {
			expect.NoError(t, slow.Subscribe(q, q))
		}
		for h := int64(101); h <= 105; h++ {
			synctest.Wait()
			w.nodes[0].announce(h)
			w.move(h, 0)
		}
		w.expect(fast, "NewBlock 101, NewBlock 102, NewBlock 103, NewBlock 104, NewBlock 105")
		slow.drain(t.Context())
		w.expect(slow, "tm.event='NewBlock': internal subscription event buffer is out of capacity")
		expect.ErrorIs(t, slow.Unsubscribe(blocks), events.ErrNotFound, "Unsubscribe of the ended subscription")
		expect.NoError(t, slow.UnsubscribeAll())
	})
}

// Otherwise a client that does not read could subscribe again and again, and each subscription would fill a queue.
func TestUnreadSubscriptionCountsUntilItsEnd(t *testing.T) {
	for name, end := range map[string]func(s *events.Subscriber) error{
		"unsubscribe":     func(s *events.Subscriber) error { return s.Unsubscribe(blocks) },
		"unsubscribe_all": (*events.Subscriber).UnsubscribeAll,
	} {
		inBubble(t, 1, events.Options{Queue: 3}, func(t *testing.T, w *world) {
			slow := &listener{Subscriber: w.feed.Subscriber(events.Client{Limit: 1, Wake: func() {}})}
			expect.NoError(t, slow.Subscribe(blocks, "first"))
			announce := func(from int64) {
				for h := from; h < from+5; h++ {
					synctest.Wait()
					w.nodes[0].announce(h)
					w.move(h, 0)
				}
				synctest.Wait()
			}
			w.listen(blocks)
			announce(101)
			if err := slow.Subscribe(txs, "second"); fmt.Sprint(err) != "max_subscriptions_per_client 1 reached" {
				t.Errorf("Subscribe before the end is read = %v, want the limit reached", err)
			}
			if err := end(slow.Subscriber); err != nil {
				t.Errorf("%s before the end is read = %v, want nil", name, err)
			}
			expect.NoError(t, slow.Subscribe(blocks, "third"))
			announce(106)
			slow.drain(t.Context())
			w.expect(slow, "third: internal subscription event buffer is out of capacity")
			expect.NoError(t, slow.Subscribe(blocks, "fourth"))
		})
	}
}

func TestSubscriptionErrorsEqualTheNodes(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		s := w.feed.Subscriber(events.Client{Limit: 2, Wake: func() {}})
		for _, step := range []struct{ call, query, refusal string }{
			{"subscribe", "a.b=5", ""},
			{"subscribe", " a.b = 5", "already subscribed"},
			{"subscribe", "a.b", "failed to parse query: offset 3: EOF"},
			{"subscribe", "a='" + strings.Repeat("x", 510) + "'", "maximum query length exceeded"},
			{"unsubscribe", "a='" + strings.Repeat("x", 510) + "'", "subscription not found"},
			{"unsubscribe", strings.Repeat("x", 513), "subscription not found"}, // not parsed
			{"unsubscribe", "a.b=05", "subscription not found"},
			{"subscribe", "a.b=05", ""},
			{"subscribe", "a.b=5", "max_subscriptions_per_client 2 reached"},
			{"unsubscribe", "a.b=5 ", ""},
			{"subscribe", "a.b=5", ""},
			{"all", "", ""},
			{"all", "", "subscription not found"},
		} {
			var err error
			switch step.call {
			case "subscribe":
				err = s.Subscribe(step.query, nil)
			case "unsubscribe":
				err = s.Unsubscribe(step.query)
			default:
				err = s.UnsubscribeAll()
			}
			if got := fmt.Sprint(err); got != step.refusal && (err != nil || step.refusal != "") {
				t.Errorf("%s %.20s: %q, want %q", step.call, step.query, got, step.refusal)
			}
		}
	})
}

func TestSubscribeFailsWhileNoNodeHasEvents(t *testing.T) {
	inBubble(t, 2, events.Options{}, func(t *testing.T, w *world) {
		old := errors.New("CometBFT 0.37")
		w.nodes[0].with(func(n *node) { n.noEvents = old })
		l := w.listen(blocks)
		w.nodes[1].with(func(n *node) { n.noEvents = old })
		if err := l.Subscribe(txs, nil); !errors.Is(err, old) || !errors.Is(w.feed.Unsupported(), old) {
			t.Errorf("Subscribe = %v, Unsupported = %v; want %v", err, w.feed.Unsupported(), old)
		}
	})
}

func TestBlocksWithoutFinalizeBlockEventsAreNotAnnounced(t *testing.T) {
	inBubble(t, 1, events.Options{}, func(t *testing.T, w *world) {
		w.old = true
		l := w.listen(blocks)
		synctest.Wait()
		w.move(101, 0)
		w.nodes[0].announce(101)
		time.Sleep(20 * time.Second)
		w.expect(l, "")
		w.mu.Lock()
		w.old = false
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		w.expect(l, "NewBlock 101")
	})
}
