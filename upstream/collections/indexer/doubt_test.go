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
	evmclient "github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFallbackWithWrongHashesIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	sound, fork := serveEVM(t, h, faults{}), serveEVM(t, h, faults{})
	x, _ := follow(t, quick(store, sound, fork))
	await(t, store, h.head())
	want := h.count(0)
	fork.set(faults{forkFrom: 1})
	sound.set(faults{status: http.StatusBadGateway})
	h.grow(5)
	eventually(t, "an error in the status", func() bool { return x.Status().Err != nil })
	checkStore(t, store, want)
	if s := x.Status(); s.Ended || !s.Running {
		t.Errorf("status = %+v, want running", s)
	}
	sound.set(faults{})
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestForkAboveCursorIsNotCountedIfAnotherClientContradicts(t *testing.T) {
	h := newHistory(9, 50)
	store := openMemory(t)
	fork := serveEVM(t, h, faults{forkFrom: h.head() + 1})
	x, _ := follow(t, quick(store, fork, serveEVM(t, h, faults{})))
	await(t, store, 59) // the last block before the fork
	h.addBlock(h.register)
	eventually(t, "an error in the status", func() bool { return x.Status().Err != nil })
	expect.Equal(t, readCursor(t, store).Block, 59, "block of the cursor")
	fork.set(faults{})
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestBlockIsNotCountedUntilTheOtherClientHasIt(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	fork, late := serveEVM(t, h, faults{forkFrom: h.head() + 1}), serveEVM(t, h, faults{})
	o := quick(store, fork, late)
	o.Grace = time.Minute
	x, _ := follow(t, o)
	await(t, store, 59)
	late.set(faults{lag: 1})
	h.addBlock(h.register)
	late.awaitRequests(t, 3)
	expect.Equal(t, readCursor(t, store).Block, 59, "block of the cursor while the other client lags")
	late.set(faults{})
	eventually(t, "an error in the status", func() bool { return x.Status().Err != nil })
	expect.Equal(t, readCursor(t, store).Block, 59, "block of the cursor when the other client contradicts")
}

func TestClientThatConfirmsItselfWhileTheOtherFailsIsUnverified(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	other := serveEVM(t, h, faults{})
	x, _ := follow(t, quick(store, serveEVM(t, h, faults{}), other))
	await(t, store, h.head())
	expect.Equal(t, x.Status().State(), "running", "state while both clients answer")
	other.set(faults{status: http.StatusBadGateway})
	h.addBlock(h.register)
	await(t, store, h.head())
	expect.Equal(t, x.Status().State(), "unverified", "state after one client confirmed a block alone")
	checkStore(t, store, h.count(0))
}

func TestStoreStepsBackFromWrongHashOfBlockWithoutEvents(t *testing.T) {
	testEachStore(t, func(t *testing.T, url string) {
		h := newHistory(9, 50)
		store := open(t, url)
		evm := serveEVM(t, h, faults{})
		run(t, quick(store, evm))
		for range 3 { // three empty blocks, the last two from a fork
			h.addBlock()
			run(t, quick(store, evm))
			evm.set(faults{forkFrom: 61})
		}
		expect.Equal(t, readCursor(t, store).Block, 62, "block of the cursor on the fork")
		evm.set(faults{})
		h.grow(5)
		run(t, quick(store, evm))
		checkStore(t, store, h.count(0))
		expect.Equal(t, readCursor(t, store).Block, h.head(), "block of the cursor after the fork")
	})
}

func TestHeaderThatContradictsLogsDoesNotAdvanceCursor(t *testing.T) {
	t.Parallel()
	for name, catchUp := range map[string]int{"while following": 1, "while catching up": 100} {
		h := newHistory(9, 50)
		store := openMemory(t)
		evm := serveEVM(t, h, faults{})
		run(t, quick(store, evm))
		before := readCursor(t, store)
		h.grow(catchUp - 1)
		h.addBlock(h.register)
		evm.set(faults{wrongHeader: true})
		if index(t.Context(), quick(store, evm)) == nil {
			t.Errorf("%s: Run = nil, want an error", name)
		}
		expect.Equal(t, readCursor(t, store), before, "cursor %s", name)
		evm.set(faults{})
		run(t, quick(store, evm))
		checkStore(t, store, h.count(0))
	}
}

func TestMissingLogsAreRequestedAgain(t *testing.T) {
	t.Parallel()
	for name, clientFaults := range map[string][]faults{
		"by block hash from the same client":       {{drops: dropsRanges}},
		"from the other client":                    {{drops: dropsAll}, {}},
		"from the other of two clients, unbatched": {{drops: dropsAll, maxCalls: 1}, {}},
	} {
		h := newHistory(9, 50)
		store := openMemory(t)
		run(t, quick(store, serveEVM(t, h, faults{})))
		var clients []*fakeEVM
		for _, f := range clientFaults {
			clients = append(clients, serveEVM(t, h, f))
		}
		for range 10 {
			h.grow(2)
			run(t, quick(store, clients...))
		}
		checkStore(t, store, h.count(0))
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestLogsThatAppearAfterTheirHeaderAreCounted(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	run(t, quick(store, serveEVM(t, h, faults{})))
	h.addBlock(h.register)
	run(t, quick(store, serveEVM(t, h, faults{drops: dropsAll, late: 4})))
	checkStore(t, store, h.count(0))
}

func TestClientWithoutLogsIsNotBelievedForItsEmptyBlooms(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 500)
	store := openMemory(t)
	wrong := serveEVM(t, h, faults{drops: dropsAll, zeroBloom: true})
	o := quick(store, serveEVM(t, h, faults{}), wrong)
	err := index(t.Context(), o)
	expect.Contains(t, fmt.Sprint(err), "differ at", "error of Run while the clients contradict each other")
	wrong.set(faults{})
	run(t, o)
	checkStore(t, store, h.count(0))
}

func TestFalseBloomOfSoundClientIsAccepted(t *testing.T) {
	h := newHistory(9, 50)
	evm := serveEVM(t, h, faults{})
	store := openMemory(t)
	for range 3 {
		h.grow(2)
		h.mu.Lock()
		h.falseBloom = int64(len(h.blocks))
		h.mu.Unlock()
		h.addBlock()
		run(t, quick(store, evm))
		run(t, quick(store, evm))
	}
	checkStore(t, store, h.count(0))
}

func TestInventedLogsOfAnotherClientDoNotCount(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	sound, liar := serveEVM(t, h, faults{}), serveEVM(t, h, faults{invents: true})
	run(t, quick(store, sound))
	h.mu.Lock()
	h.falseBloom, h.invented = int64(len(h.blocks)), h.mint(h.ips[0])
	h.mu.Unlock()
	h.addBlock()
	run(t, quick(store, sound, liar))
	checkStore(t, store, h.count(0))
}

func TestClientsWithoutAnyLogsAreNotTrusted(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 2} {
		for when, blocks := range map[string]int{"while following": 15, "while catching up": 400} {
			h := newHistory(9, 50)
			store := openMemory(t)
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
			if err := index(t.Context(), o); err == nil || !strings.Contains(err.Error(), "promises") {
				t.Errorf("%d clients, %s: Run = %v, want an error about the logs that headers promise", clients, when, err)
			}
		}
	}
}

func TestLogsThatAllClientsLackAreNotSkipped(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 12_000)
	for _, clients := range []int{1, 2} {
		for _, window := range []int64{10_000, 900, 7} {
			t.Run(fmt.Sprintf("%d clients, windows of %d", clients, window), func(t *testing.T) {
				t.Parallel()
				var evms []*fakeEVM
				for range clients {
					evms = append(evms, serveEVM(t, h, faults{lostUntil: 8000}))
				}
				store := openMemory(t)
				o := quick(store, evms...)
				o.Window, o.Doubt = window, 10*time.Millisecond
				if err := index(t.Context(), o); err == nil || !strings.Contains(err.Error(), "promises") {
					t.Errorf("Run = %v, want an error about the logs that a header promises", err)
				}
				if cursor := readCursor(t, store); cursor.Block >= 8000 || cursor.Chain != 0 && !cursor.Incomplete {
					t.Errorf("cursor = %+v, want it before block 8000 and incomplete", cursor)
				}
				o.Doubt = time.Second
				err := index(t.Context(), o) // another indexer does not pass the block either
				if cursor := readCursor(t, store); err == nil || cursor.Block >= 8000 {
					t.Errorf("next Run = %v with cursor %+v, want an error before block 8000", err, cursor)
				}
			})
		}
	}
}

func TestStoreIsCompleteIfLogsWereLateAtTheHead(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 50)
	store := openMemory(t)
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	evm.set(faults{drops: dropsAll})
	h.grow(100)
	h.addBlock(h.register)
	if err := index(t.Context(), quick(store, evm)); err == nil || !strings.Contains(err.Error(), "promises") {
		t.Errorf("Run = %v, want an error about the logs that a header promises", err)
	}
	evm.set(faults{})
	run(t, quick(store, evm))
	checkStore(t, store, h.count(0))
}

func TestFalseFarHeadDoesNotStopIndexing(t *testing.T) {
	t.Parallel()
	h := newHistory(9, 50)
	store := openMemory(t)
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	evm.set(faults{ahead: 1_000_000})
	x, _ := follow(t, quick(store, evm))
	eventually(t, "the false head in the status", func() bool { return x.Status().Head > 1_000_000 })
	evm.set(faults{})
	h.grow(5)
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

// inconsistent returns ways in which a client, or a load balancer with two of them, serves two forks.
func inconsistent(h *history) map[string]faults {
	return map[string]faults{
		"in half of the requests":               {forkFrom: 1, forkLogs: true, forkRate: 0.5},
		"in half of the calls":                  {forkFrom: 1, forkLogs: true, forkRate: 0.5, forkCalls: true},
		"in half of the requests, new blocks":   {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.5},
		"in half of the calls, new blocks":      {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.5, forkCalls: true},
		"in every second request":               {forkFrom: 1, forkLogs: true, every: 2},
		"in every second request of one call":   {forkFrom: 1, forkLogs: true, every: 2, maxCalls: 1},
		"in one of ten requests":                {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.1},
		"in one of ten requests of three calls": {forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.1, maxCalls: 3},
	}
}

func TestRunWithInconsistentClientNeverReturnsWrongCounts(t *testing.T) {
	for name := range inconsistent(newHistory(1, 0)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(6, 50)
			store := openMemory(t)
			evm := serveEVM(t, h, faults{})
			run(t, quick(store, evm))
			f := inconsistent(h)[name]
			h.grow(400)
			evm.set(f)
			o := quick(store, evm)
			o.Window = 5
			if index(t.Context(), o) == nil {
				checkStore(t, store, h.count(0)) // the client contradicted itself so rarely that everything was read again
			}
		})
	}
}

// A response and its confirmation may come from the same fork by chance.
func TestRunFailsWhileClientContradictsItself(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 50)
	for range 10 {
		store := openMemory(t)
		evm := serveEVM(t, h, faults{})
		run(t, quick(store, evm))
		evm.set(faults{forkFrom: h.head() + 1, forkLogs: true, forkRate: 0.5})
		h.grow(20)
		o := quick(store, evm)
		o.Doubt = 10 * time.Millisecond
		if index(t.Context(), o) == nil {
			t.Fatal("Run with a client on two forks = nil, want an error")
		}
	}
}

// Another client would be needed to find out at once which hash is right. Without one, the client must agree with itself.
func TestOnlyClientIsTrustedAgainAfterEqualReads(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 50)
	store := openMemory(t)
	evm := serveEVM(t, h, faults{})
	x, _ := follow(t, quick(store, evm))
	await(t, store, h.head())
	before := readCursor(t, store)
	evm.set(faults{forkFrom: h.head() + 1, forkLogs: true, every: 2})
	h.grow(20)
	h.addBlock(h.register)
	eventually(t, "an unreliable client", func() bool { return errors.Is(x.Status().Err, evmclient.ErrUnreliable) })
	expect.Equal(t, readCursor(t, store), before, "cursor while the client contradicts itself")
	evm.set(faults{})
	await(t, store, h.head())
	checkStore(t, store, h.count(0))
}

func TestInconsistentClientDoesNotStopIndexing(t *testing.T) {
	for name := range inconsistent(newHistory(1, 0)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(7, 50) // without times in its logs
			store := openMemory(t)
			f := inconsistent(h)[name]
			h.grow(200)
			evm, sound := serveEVM(t, h, f), serveEVM(t, h, faults{})
			o := quick(store, evm, sound)
			o.Window, o.Doubt = 5, time.Minute
			for range 2 {
				// A response from the fork may look like one that omits logs.
				if err := index(t.Context(), o); err != nil && !errors.Is(err, indexer.ErrIncomplete) {
					t.Fatal(err)
				}
				checkStore(t, store, h.count(0))
				h.grow(5)
			}
		})
	}
}

func TestFirstCursorIsNotFromAFork(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 0)                 // without events
	for every := 2; every < 16; every++ { // with some of these, the request for the first blocks is answered from the fork
		store := openMemory(t)
		o := quick(store, serveEVM(t, h, faults{forkFrom: 1, every: every}))
		o.Doubt = 10 * time.Millisecond
		index(t.Context(), o) // may fail
		if cursor := readCursor(t, store); cursor.Chain != 0 {
			expect.Equal(t, cursor.Hash.String(), h.hash(faults{}, cursor.Block), "hash of the cursor, with one of %d requests from a fork", every)
		}
	}
}

func TestMissingLogsDuringCatchUpAreFoundByAnotherClient(t *testing.T) {
	for name, f := range map[string]faults{"all logs": {drops: dropsAll}, "logs of ranges": {drops: dropsRanges}} {
		for _, first := range []bool{true, false} {
			for _, window := range []int64{10_000, 7} {
				t.Run(fmt.Sprintf("%s missing, first client %t, windows of %d", name, first, window), func(t *testing.T) {
					t.Parallel()
					h := newHistory(6, 500)
					h.addBlock() // the blooms of the first and the last block promise nothing
					store := openMemory(t)
					evms := []*fakeEVM{serveEVM(t, h, f), serveEVM(t, h, faults{})}
					if !first {
						evms[0], evms[1] = evms[1], evms[0]
					}
					o := quick(store, evms...)
					o.Window = window
					run(t, o)
					checkStore(t, store, h.count(0))
				})
			}
		}
	}
}

// The client that omits logs is detected only after it was the only one for a while, in this run or in an earlier one.
func TestStoreIsIncompleteIfAnEarlierSourceOmitsLogs(t *testing.T) {
	for name, f := range map[string]faults{"all": {drops: dropsAll}, "some": {dropsFrom: 100}} {
		for _, restarts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, restart %t", name, restarts), func(t *testing.T) {
				t.Parallel()
				h := newHistory(6, 300)
				h.addBlock() // the bloom of the last block promises nothing
				store := openMemory(t)
				wrong, sound := serveEVM(t, h, f), serveEVM(t, h, faults{status: http.StatusBadGateway})
				o := quick(store, wrong, sound)
				o.Window = 10_000
				x, stop := follow(t, o)
				await(t, store, h.head())
				if restarts {
					stop()
				}
				sound.set(faults{})
				h.grow(300)
				if restarts {
					x, _ = follow(t, o)
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

// unreliableStore is a store whose first MarkIncomplete fails.
type unreliableStore struct {
	*collections.Store
	failed atomic.Bool
}

func (s *unreliableStore) MarkIncomplete(ctx context.Context) error {
	if !s.failed.Swap(true) {
		return errors.New("no connection")
	}
	return s.Store.MarkIncomplete(ctx)
}

func TestStoreThatMayLackLogsIsIncompleteUntilItIsRebuilt(t *testing.T) {
	testEachStore(t, func(t *testing.T, url string) {
		t.Parallel()
		h := newHistory(6, 300)
		store := open(t, url)
		evm, sound := serveEVM(t, h, faults{}), serveEVM(t, h, faults{})
		o := quick(&unreliableStore{Store: store}, evm, sound)
		o.Window = 20
		first, stop := follow(t, o)
		await(t, store, h.head())
		evm.set(faults{dropsFrom: 400})
		h.grow(1000)
		eventually(t, "state incomplete", func() bool { return first.Status().State() == "incomplete" })
		stop()

		h.grow(5)
		expect.ErrorIs(t, index(t.Context(), quick(store, sound)), indexer.ErrIncomplete, "next Run")
		x, _ := follow(t, quick(store, sound))
		await(t, store, h.head())
		h.grow(5)
		await(t, store, h.head())
		eventually(t, "state incomplete after a restart", func() bool { return x.Status().State() == "incomplete" })
		if s := x.Status(); !s.Counting() {
			t.Errorf("status = %+v, want it counting", s)
		}

		shadow := expect.Value(store.Shadow(t.Context()))(t)
		run(t, quick(shadow, sound))
		expect.NoError(t, errors.Join(shadow.Close(), store.SwapIn(t.Context()), store.DropShadow(t.Context())))
		eventually(t, "state unverified after a rebuild", func() bool { return x.Status().State() == "unverified" })
		checkStore(t, store, h.count(0))
	})
}

func TestStrictRunEndsAtOnceIfStoreIsIncomplete(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 100)
	store := openMemory(t)
	evm := serveEVM(t, h, faults{})
	run(t, quick(store, evm))
	before := h.head()
	expect.NoError(t, store.MarkIncomplete(t.Context()))
	h.grow(100)
	o := quick(store, evm)
	o.Strict = true
	expect.ErrorIs(t, index(t.Context(), o), indexer.ErrIncomplete, "Run")
	expect.Equal(t, readCursor(t, store).Block, before, "block of the cursor")
}

func TestRepeatedLogIsCountedOnce(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{false, true} {
		h := newHistory(6, 100)
		store := openMemory(t)
		evm := serveEVM(t, h, faults{twice: true})
		run(t, quick(store, evm))
		if follows { // few blocks are read in another way than many
			h.grow(8)
			run(t, quick(store, evm))
		}
		checkStore(t, store, h.count(0))
	}
}

func TestTwoDifferentLogsAtOnePositionAreRefused(t *testing.T) {
	t.Parallel()
	h := newHistory(6, 100)
	store := openMemory(t)
	clash := serveEVM(t, h, faults{clash: true})
	err := index(t.Context(), quick(store, clash))
	if err == nil || !strings.Contains(err.Error(), "two different logs at one position") {
		t.Errorf("Run = %v, want an error about two different logs", err)
	}
	expect.Equal(t, readCursor(t, store).Block, 0, "block of the cursor")
	o := quick(store, clash, serveEVM(t, h, faults{}))
	o.Grace, o.Doubt = time.Millisecond, time.Minute // the sound client confirms its own blocks after Grace
	run(t, o)
	checkStore(t, store, h.count(0))
}

func TestWrongAnswersAboutContractsAreDetected(t *testing.T) {
	t.Parallel()
	wrong := map[string]faults{"half of the responses": {spoiled: true}, "every second response": {lies: math.MaxInt, every: 2}}
	for lies := range 12 {
		wrong[fmt.Sprintf("the first %d answers", lies)] = faults{lies: lies}
	}
	h := newHistory(6, 100)
	for name, f := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, from := range []int64{0, 60} { // the first block is searched for; IPs and disputes are resolved by calls
				store := openMemory(t)
				o := quick(store, serveEVM(t, h, f))
				o.From = from
				follow(t, o)
				await(t, store, h.head())
				checkStore(t, store, h.count(from))
			}
		})
	}
}
