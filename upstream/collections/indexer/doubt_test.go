package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// lies makes a fork of faults begin at the block that comes next.
func (h *history) lies() faults { return faults{forkFrom: h.head() + 1} }

func TestFallbackWithWrongHashesIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHistory(9)
	h.grow(50)
	store := open(t, memory(t))
	sound, fork := serveEVM(t, h, faults{}), serveEVM(t, h, faults{})
	o := quick(store, sound, fork)
	o.Follow = true
	x := follow(t, o)
	await(t, store, h.head())
	want := h.count(0)
	fork.set(faults{forkFrom: 1})
	sound.set(faults{status: http.StatusBadGateway})
	h.grow(5)
	eventually(t, "that no client is believed", func() bool { return x.Status().Err != nil })
	expect(t, store, want) // nothing was taken over
	if s := x.Status(); s.Ended || !s.Running {
		t.Errorf("status = %+v, want running", s)
	}
	sound.set(faults{})
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

func TestForkAboveCursorIsNotCountedIfAnotherClientContradicts(t *testing.T) {
	h := newHistory(9)
	h.grow(50)
	store := open(t, memory(t))
	fork := serveEVM(t, h, h.lies())
	o := quick(store, fork, serveEVM(t, h, faults{}))
	o.Follow = true
	x := follow(t, o)
	await(t, store, 59) // where both are one
	h.mu.Lock()
	h.blocks = append(h.blocks, []fakeLog{h.register()})
	h.mu.Unlock()
	eventually(t, "that they contradict each other", func() bool { return x.Status().Err != nil })
	if cursor, err := store.Cursor(t.Context()); err != nil || cursor.Block != 59 {
		t.Errorf("cursor = %d, %v, want 59", cursor.Block, err)
	}
	fork.set(faults{})
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

func TestStoreStepsBackFromWrongHashOfBlockWithoutEvents(t *testing.T) {
	everyStore(t, func(t *testing.T, url string) {
		h := newHistory(9)
		h.grow(50)
		store := open(t, url)
		evm := serveEVM(t, h, faults{})
		run(t, quick(store, evm))
		for range 3 { // empty blocks, the last two of them of a fork
			h.mu.Lock()
			h.blocks = append(h.blocks, nil)
			h.mu.Unlock()
			run(t, quick(store, evm))
			evm.set(faults{forkFrom: 61})
		}
		wrong, err := store.Cursor(t.Context())
		evm.set(faults{})
		h.grow(5)
		run(t, quick(store, evm))
		expect(t, store, h.count(0))
		if cursor, again := store.Cursor(t.Context()); err != nil || again != nil || cursor.Block != h.head() || wrong.Block != 62 {
			t.Errorf("cursor was %d and is %d, want 62 and %d; errors %v, %v", wrong.Block, cursor.Block, h.head(), err, again)
		}
	})
}

func TestHeaderThatContradictsLogsDoesNotAdvanceCursor(t *testing.T) {
	t.Parallel()
	for name, catchUp := range map[string]int{"while following": 1, "while catching up": 100} {
		h := newHistory(9)
		h.grow(50)
		store := open(t, memory(t))
		evm := serveEVM(t, h, faults{})
		run(t, quick(store, evm))
		before, err := store.Cursor(t.Context())
		h.grow(catchUp - 1)
		h.mu.Lock()
		h.blocks = append(h.blocks, []fakeLog{h.register()})
		h.mu.Unlock()
		evm.set(faults{wrongHeader: true})
		if failed := index(t.Context(), quick(store, evm)); failed == nil {
			t.Errorf("%s: Run = nil, want an error", name)
		}
		if at, again := store.Cursor(t.Context()); at != before || err != nil || again != nil {
			t.Errorf("%s: cursor = %+v, want %+v; errors %v, %v", name, at, before, err, again)
		}
		evm.set(faults{})
		run(t, quick(store, evm))
		expect(t, store, h.count(0))
	}
}

func TestMissingLogsAreRequestedAgain(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string][]faults{
		"by the range, of the same client": {{drops: dropsRanges}},
		"of the other client":              {{drops: dropsAll}, {}},
		"by an endpoint that takes a call": {{drops: dropsAll, maxCalls: 1}, {}},
	} {
		h := newHistory(9)
		h.grow(50)
		store := open(t, memory(t))
		run(t, quick(store, serveEVM(t, h, faults{})))
		var clients []*fakeEVM
		for _, f := range drop {
			clients = append(clients, serveEVM(t, h, f))
		}
		for range 10 {
			h.grow(2)
			run(t, quick(store, clients...))
		}
		expect(t, store, h.count(0))
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestFalseBloomOfSoundClientIsAccepted(t *testing.T) {
	h := newHistory(9)
	h.grow(50)
	evm := serveEVM(t, h, faults{})
	store := open(t, memory(t))
	for range 3 {
		h.grow(2)
		h.mu.Lock()
		h.vain = map[int64]bool{int64(len(h.blocks)): true} // its bloom is that of a log that it does not have
		h.blocks = append(h.blocks, nil)
		h.mu.Unlock()
		run(t, quick(store, evm))
		run(t, quick(store, evm))
	}
	expect(t, store, h.count(0))
}

func TestClientsWithoutAnyLogsAreNotTrusted(t *testing.T) {
	t.Parallel()
	for name, clients := range map[string]int{"one": 1, "two": 2} {
		for what, blocks := range map[string]int{"while following": 15, "while catching up": 400} {
			h := newHistory(9)
			h.grow(50)
			store := open(t, memory(t))
			if blocks < 50 {
				run(t, quick(store, serveEVM(t, h, faults{})))
			}
			h.grow(blocks)
			var evms []*fakeEVM
			for range clients {
				evms = append(evms, serveEVM(t, h, faults{drops: dropsAll}))
			}
			o := quick(store, evms...)
			o.Window = 10
			if err := index(t.Context(), o); err == nil || !strings.Contains(err.Error(), "promise") {
				t.Errorf("%s, %s: error = %v, want one about the logs that headers promise", name, what, err)
			}
		}
	}
}

func TestFalseFarHeadDoesNotStopIndexing(t *testing.T) {
	t.Parallel()
	h := newHistory(9)
	h.grow(50)
	store := open(t, memory(t))
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	evm.set(faults{ahead: 1_000_000})
	o := quick(store, evm)
	o.Follow = true
	x := follow(t, o)
	eventually(t, "that the head is believed", func() bool { return x.Status().Head > 1_000_000 })
	evm.set(faults{})
	h.grow(5)
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

// mixed are ways in which a client, or two behind one address, tells of two forks.
func mixed(h *history) map[string]faults {
	return map[string]faults{
		"by requests":                           {forkFrom: 1, forkLogs: true, forkRate: 0.5},
		"by calls":                              {forkFrom: 1, forkLogs: true, forkRate: 0.5, forkCalls: true},
		"from the next block on":                {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.5},
		"from the next block on, call by call":  {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.5, forkCalls: true},
		"in every second request":               {forkFrom: 1, forkLogs: true, every: 2},
		"in every second request of a call":     {forkFrom: 1, forkLogs: true, every: 2, maxCalls: 1},
		"in one of ten requests":                {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.1},
		"in one of ten requests of three calls": {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.1, maxCalls: 3},
	}
}

func TestRunWithInconsistentClientNeverReturnsWrongCounts(t *testing.T) {
	for name := range mixed(newHistory(1)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(6)
			h.grow(50)
			store := open(t, memory(t))
			evm := serveEVM(t, h, faults{})
			run(t, quick(store, evm))
			f := mixed(h)[name]
			h.grow(400)
			evm.set(f)
			o := quick(store, evm)
			o.Window = 5
			if index(t.Context(), o) == nil {
				expect(t, store, h.count(0)) // it contradicted itself so seldom that all was read again
			}
		})
	}
}

// One answer and its confirmation may come from the same of two forks by chance.
func TestRunFailsWhileClientContradictsItself(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(50)
	for range 10 {
		store := open(t, memory(t))
		evm := serveEVM(t, h, faults{})
		run(t, quick(store, evm))
		evm.set(faults{forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.5})
		h.grow(20)
		o := quick(store, evm)
		o.Doubt = 10 * time.Millisecond
		if index(t.Context(), o) == nil {
			t.Fatal("run with a client on two forks: error = nil, want one")
		}
	}
}

func TestInconsistentClientDoesNotStopIndexing(t *testing.T) {
	for name := range mixed(newHistory(1)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(7) // without times in its logs
			h.grow(50)
			store := open(t, memory(t))
			f := mixed(h)[name]
			h.grow(200)
			evm, sound := serveEVM(t, h, f), serveEVM(t, h, faults{})
			o := quick(store, evm, sound)
			o.Window, o.Doubt = 5, time.Minute
			for range 2 {
				// An answer of the fork may look like one that leaves logs out.
				if err := index(t.Context(), o); err != nil && !errors.Is(err, indexer.ErrIncomplete) {
					t.Fatal(err)
				}
				expect(t, store, h.count(0))
				h.grow(5)
			}
		})
	}
}

func TestFirstCursorIsNotOfAnInconsistentClient(t *testing.T) {
	t.Parallel()
	h := newHistory(6)                    // without events
	for every := 2; every < 16; every++ { // one of these answers the request for the first blocks from the fork
		store := open(t, memory(t))
		o := quick(store, serveEVM(t, h, faults{forkFrom: 1, every: every}))
		o.Doubt = 10 * time.Millisecond
		index(t.Context(), o) // may fail
		cursor, err := store.Cursor(t.Context())
		must(t, err)
		if want := h.hash(faults{}, cursor.Block); cursor.Chain != 0 && cursor.Hash.String() != want {
			t.Errorf("fork in one of %d requests: the store is at block %d, %v, want %v", every, cursor.Block, cursor.Hash, want)
		}
	}
}

func TestMissingLogsDuringCatchUpAreFoundByAnotherClient(t *testing.T) {
	for name, f := range map[string]faults{"all": {drops: dropsAll}, "those of ranges": {drops: dropsRanges}} {
		for _, first := range []bool{true, false} {
			for _, window := range []int64{10_000, 7} {
				t.Run(fmt.Sprintf("%s, first %t, windows of %d", name, first, window), func(t *testing.T) {
					t.Parallel()
					h := newHistory(6)
					h.grow(500)
					h.blocks = append(h.blocks, nil) // the blooms of the first and the last block promise nothing
					store := open(t, memory(t))
					evms := []*fakeEVM{serveEVM(t, h, f), serveEVM(t, h, faults{})}
					if !first {
						evms[0], evms[1] = evms[1], evms[0]
					}
					o := quick(store, evms...)
					o.Window = window
					run(t, o)
					expect(t, store, h.count(0))
				})
			}
		}
	}
}

// A client is found out only after it was the only one for a while, in this run or in an earlier one.
func TestStoreIsIncompleteIfAnEarlierSourceOmitsLogs(t *testing.T) {
	for name, f := range map[string]faults{"all": {drops: dropsAll}, "some": {dropsFrom: 100}} {
		for _, restarts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, restart %t", name, restarts), func(t *testing.T) {
				t.Parallel()
				h := newHistory(6)
				h.grow(300)
				h.blocks = append(h.blocks, nil) // the bloom of the last block promises nothing
				store := open(t, memory(t))
				wrong, sound := serveEVM(t, h, f), serveEVM(t, h, faults{status: http.StatusBadGateway})
				o := quick(store, wrong, sound)
				o.Window, o.Follow = 10_000, !restarts
				var x *indexer.Indexer
				if restarts {
					run(t, o)
				} else {
					x = follow(t, o)
					await(t, store, h.head())
				}
				sound.set(faults{})
				h.grow(300)
				if o.Follow = true; restarts {
					x = follow(t, o)
				}
				eventually(t, "state incomplete", func() bool {
					if x.Status().Cursor.Block == h.head() { // the sound client still paused after its failures
						h.grow(300)
					}
					return x.Status().State() == "incomplete"
				})
			})
		}
	}
}

// forgetful is a store whose first MarkIncomplete fails.
type forgetful struct {
	*collections.Store
	failed atomic.Bool
}

func (f *forgetful) MarkIncomplete(ctx context.Context) error {
	if !f.failed.Swap(true) {
		return errors.New("no connection")
	}
	return f.Store.MarkIncomplete(ctx)
}

func TestStoreThatMayLackLogsIsIncompleteUntilItIsRebuilt(t *testing.T) {
	everyStore(t, func(t *testing.T, url string) {
		t.Parallel()
		h := newHistory(6)
		h.grow(300)
		store := open(t, url)
		evm, sound := serveEVM(t, h, faults{}), serveEVM(t, h, faults{})
		o := quick(&forgetful{Store: store}, evm, sound)
		o.Window, o.Follow = 20, true
		first, err := indexer.New(o)
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- first.Run(ctx) }()
		await(t, store, h.head())
		evm.set(faults{dropsFrom: 400})
		h.grow(1000)
		eventually(t, "state incomplete", func() bool { return first.Status().State() == "incomplete" })
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want %v", err, context.Canceled)
		}

		h.grow(5)
		o = quick(store, sound)
		if err := index(t.Context(), o); !errors.Is(err, indexer.ErrIncomplete) {
			t.Fatalf("error of the next run = %v, want %v", err, indexer.ErrIncomplete)
		}
		o.Follow = true
		x := follow(t, o)
		await(t, store, h.head())
		h.grow(5)
		await(t, store, h.head())
		eventually(t, "state incomplete after a restart", func() bool { return x.Status().State() == "incomplete" })
		if s := x.Status(); !s.Counting() {
			t.Errorf("status = %+v, want it to count on", s)
		}

		beside, err := store.Shadow(t.Context())
		must(t, err)
		run(t, quick(beside, sound))
		must(t, errors.Join(beside.Close(), store.SwapIn(t.Context()), store.DropShadow(t.Context())))
		eventually(t, "state unverified after a rebuild", func() bool { return x.Status().State() == "unverified" })
		expect(t, store, h.count(0))
	})
}

func TestRepeatedLogIsCountedOnce(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{false, true} {
		h := newHistory(6)
		h.grow(100)
		store := open(t, memory(t))
		evm := serveEVM(t, h, faults{twice: true})
		run(t, quick(store, evm))
		if follows { // a few blocks are read in another way than many
			h.grow(8)
			run(t, quick(store, evm))
		}
		expect(t, store, h.count(0))
	}
}

func TestTwoDifferentLogsAtOnePositionAreRefused(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(100)
	store := open(t, memory(t))
	clash := serveEVM(t, h, faults{clash: true})
	err := index(t.Context(), quick(store, clash))
	if err == nil || !strings.Contains(err.Error(), "two different logs at one position") {
		t.Errorf("error = %v, want one that names the two logs", err)
	}
	if cursor, err := store.Cursor(t.Context()); err != nil || cursor.Block != 0 {
		t.Errorf("cursor is at block %d, %v; want none", cursor.Block, err)
	}
	run(t, quick(store, clash, serveEVM(t, h, faults{})))
	expect(t, store, h.count(0))
}

func TestWrongAnswersAboutContractsAreNotBelieved(t *testing.T) {
	t.Parallel()
	wrong := map[string]faults{"none": {spoiled: true}, "every second": {lies: math.MaxInt, every: 2}}
	for lies := range 12 {
		wrong[fmt.Sprintf("wrong answer %d", lies)] = faults{lies: lies}
	}
	h := newHistory(6)
	h.grow(100)
	for name, f := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, from := range []int64{0, 60} { // the first block is searched for; IPs and disputes are resolved by calls
				store := open(t, memory(t))
				o := quick(store, serveEVM(t, h, f))
				o.From, o.Follow = from, true
				follow(t, o)
				await(t, store, h.head())
				expect(t, store, h.count(from))
			}
		})
	}
}
