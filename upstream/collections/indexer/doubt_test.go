package indexer_test

import (
	"errors"
	"fmt"
	"math"

	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// lies makes a fork of faults begin at the block that comes next.
func (h *history) lies() faults { return faults{forkFrom: h.head() + 1} }

func diverges(t *testing.T, x *indexer.Indexer) {
	t.Helper()
	eventually(t, "that the chain is another one", func() bool { return errors.Is(x.Status().Err, indexer.ErrDiverged) })
}

func TestAFallbackWithWrongHashesIsOutlived(t *testing.T) {
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
	diverges(t, x)
	expect(t, store, want) // nothing was taken over
	if s := x.Status(); s.Ended || !s.Running {
		t.Errorf("it does not go on: %+v", s)
	}
	sound.set(faults{})
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

func TestAForkFromTheNextBlockOnCountsNothingWhereAnotherClientKnowsBetter(t *testing.T) {
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
		t.Errorf("the store is at block %d, %v", cursor.Block, err)
	}
	fork.set(faults{})
	await(t, store, h.head())
	expect(t, store, h.count(0))
}

func TestAWrongHashOfABlockThatCountsNothingIsSteppedBackFrom(t *testing.T) {
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
			t.Errorf("the store was at block %d and is at %d; %v, %v", wrong.Block, cursor.Block, err, again)
		}
	})
}

func TestAHeaderUnlikeItsLogsMovesNoCursor(t *testing.T) {
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
			t.Errorf("%s: the run succeeds", name)
		}
		if at, again := store.Cursor(t.Context()); at != before || err != nil || again != nil {
			t.Errorf("%s: the cursor has moved to %+v, %v, %v", name, at, err, again)
		}
		evm.set(faults{})
		run(t, quick(store, evm))
		expect(t, store, h.count(0))
	}
}

func TestLogsThatAreLeftOutAreAskedForAgain(t *testing.T) {
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

func TestTwoEqualAnswersWithoutLogsStand(t *testing.T) {
	h := newHistory(9)
	h.grow(50)
	store := open(t, memory(t))
	run(t, quick(store, serveEVM(t, h, faults{})))
	want := h.count(0)
	h.grow(10)
	run(t, quick(store, serveEVM(t, h, faults{drops: dropsAll}), serveEVM(t, h, faults{drops: dropsAll})))
	if cursor, err := store.Cursor(t.Context()); err != nil || cursor.Block != h.head() {
		t.Errorf("the store is at block %d, %v", cursor.Block, err)
	}
	got, err := store.List(t.Context(), collections.Query{})
	if err != nil || len(got.Items) != len(want.collections) {
		t.Errorf("%d collections, %v", len(got.Items), err)
	}
}

func TestAHeadThatIsFarAwayIsNotWaitedFor(t *testing.T) {
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

func TestOneWrongAnswerAboutAContractIsNotBelieved(t *testing.T) {
	t.Parallel()
	h := newHistory(6)
	h.grow(100)
	for _, from := range []int64{0, 60} { // the first block is searched for; IPs and disputes are resolved by calls
		for lies := range 12 {
			store := open(t, memory(t))
			o := quick(store, serveEVM(t, h, faults{lies: lies}))
			o.From, o.Follow = from, true
			follow(t, o)
			await(t, store, h.head())
			expect(t, store, h.count(from))
		}
	}
}

// It is two servers behind one address, one of them on a fork.
func TestAnEndpointOfWhichEverySecondAnswerIsOfAForkIsRead(t *testing.T) {
	for _, most := range []int{0, 1, 2, 3} {
		for what, blocks := range map[string]int{"a block at a time": 1, "ten blocks at a time": 10, "many blocks": 100, "from nothing": 0} {
			t.Run(fmt.Sprintf("%d calls at most, %s", most, what), func(t *testing.T) {
				t.Parallel()
				h := newHistory(7) // without times in its logs
				h.grow(30)
				store := open(t, memory(t))
				evm := serveEVM(t, h, faults{maxCalls: most})
				if blocks > 0 {
					run(t, quick(store, evm))
				}
				evm.set(faults{maxCalls: most, forkFrom: 1, every: 2})
				o := quick(store, evm)
				o.Follow = true
				follow(t, o)
				for range 2 {
					h.grow(blocks)
					await(t, store, h.head())
				}
				expect(t, store, h.count(0))
			})
		}
	}
}

func TestEverySecondAnswerMayTellOfNoContract(t *testing.T) {
	h := newHistory(7)
	h.grow(300)
	for _, from := range []int64{0, 60} { // the first block is searched for; IPs and disputes are resolved by calls
		store := open(t, memory(t))
		o := quick(store, serveEVM(t, h, faults{lies: math.MaxInt, every: 2}))
		o.From, o.Follow = from, true
		follow(t, o)
		await(t, store, h.head())
		expect(t, store, h.count(from))
	}
}

func TestALogThatComesTwiceCountsOnce(t *testing.T) {
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
