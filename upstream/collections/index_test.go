package collections_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// testEachLedger runs a test with each driver that supports an indexer.
func testEachLedger(t *testing.T, test func(t *testing.T, url string)) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": sqliteFile, "postgres": postgrestest.Schema} {
		t.Run(name, func(t *testing.T) { test(t, url(t)) })
	}
}

var (
	zebra = ledger.Address{0xee, 19: 1}
	apple = ledger.Address{0xaa, 19: 2}
	first = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
)

func cursorAt(block int64) ledger.Cursor {
	return ledger.Cursor{Chain: 1514, Block: block, Hash: ledger.Hash{31: byte(block)}, Time: first.Add(time.Duration(block) * time.Second)}
}

// tallyTo returns a tally with one asset of zebra, and licenses and disputes of apple.
func tallyTo(block int64) ledger.Tally {
	at := first.Add(time.Duration(block) * time.Second)
	return ledger.Tally{
		Cursor: cursorAt(block),
		Changes: []ledger.Change{
			{Collection: apple, Licenses: 2, Raised: 3, Cancelled: 4, Judged: 5, Resolved: 6, First: at, Last: at},
			{Collection: zebra, Assets: 1, First: at, Last: at.Add(time.Minute)},
		},
		Learned: ledger.Owners{
			IPs:      map[ledger.Address]ledger.Address{{19: byte(block)}: zebra},
			Disputes: map[ledger.Hash]ledger.Address{{31: byte(block)}: apple},
		},
	}
}

func TestTalliesAddUp(t *testing.T) {
	t.Parallel()
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		if m, err := s.Mark(t.Context()); err != nil || m.Cursor != (ledger.Cursor{}) || m.Generation == 0 {
			t.Errorf("Mark of a new store = %+v, %v; want a generation and no cursor", m, err)
		}
		prev := ledger.Cursor{}
		for _, block := range []int64{10, 20} {
			expect.NoError(t, s.Apply(t.Context(), prev, tallyTo(block)))
			prev = cursorAt(block)
		}
		page := list(t, s, collections.Query{OrderBy: collections.AssetCount})
		want := []collections.Collection{
			{
				Address: apple.String(), LicensesCount: 4, RaisedDisputeCount: 6, CancelledDisputeCount: 8, JudgedDisputeCount: 10, ResolvedDisputeCount: 12,
				CreatedAt: first.Add(10 * time.Second), UpdatedAt: first.Add(20 * time.Second),
			},
			{Address: zebra.String(), AssetCount: 2, CreatedAt: first.Add(10 * time.Second), UpdatedAt: first.Add(80 * time.Second)},
		}
		expect.NoDiff(t, page.Items, want, "collections")
		expect.Equal(t, page.Total, 2, "total")
		m := expect.Value(s.Mark(t.Context()))(t)
		state, of := [3]any{m.Generation, m.Revision, m.Cursor.Block}, [3]any{page.Generation, page.Revision, page.Block}
		expect.Equal(t, state, of, "generation, revision and block of the mark")
		expect.Equal(t, m.Cursor, cursorAt(20), "cursor of the mark")
	})
}

func TestWatchFollowsTheStore(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteFile(t), collections.Options{})
	w := collections.NewWatch(s, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { w.Run(ctx) })
	defer watching.Wait()
	defer cancel()
	prev := ledger.Cursor{}
	for _, block := range []int64{10, 20} {
		expect.NoError(t, s.Apply(t.Context(), prev, tallyTo(block)))
		prev = cursorAt(block)
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		expect.NoError(t, w.Await(ctx, block))
		expect.Equal(t, w.Mark().Cursor, prev, "cursor of the mark")
	}
}

// The counters end at the same maximum, whether one tally or several reach it.
func TestCountersDoNotDependOnGroupingOfBlocks(t *testing.T) {
	const most = ledger.MaxCount
	testEachLedger(t, func(t *testing.T, url string) {
		s, prev := open(t, url, collections.Options{}), ledger.Cursor{}
		imported := collections.Collection{Address: zebra.String(), LicensesCount: most + 7, CreatedAt: first, UpdatedAt: first}
		load(t, s, []collections.Collection{imported})
		for block, licenses := range []int64{most - 10, 9, 1, 1, most, most} {
			next := cursorAt(int64(block + 1))
			change := func(a ledger.Address) ledger.Change {
				return ledger.Change{Collection: a, Licenses: licenses, Raised: licenses, First: next.Time, Last: next.Time}
			}
			expect.NoError(t, s.Apply(t.Context(), prev, ledger.Tally{Cursor: next, Changes: []ledger.Change{change(apple), change(zebra)}}))
			prev = next
		}
		counted := map[string][2]int64{}
		for _, c := range list(t, s, collections.Query{}).Items {
			counted[c.Address] = [2]int64{c.LicensesCount, c.RaisedDisputeCount}
		}
		want := map[string][2]int64{apple.String(): {most, most}, zebra.String(): {most + 7, most}}
		expect.NoDiff(t, counted, want, "licenses and disputes")
	})
}

func TestOwnersAreStored(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		tally := tallyTo(10)
		expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, tally))
		other := tallyTo(20)
		other.Learned = ledger.Owners{IPs: map[ledger.Address]ledger.Address{{19: 10}: apple}} // does not replace the first owner
		expect.NoError(t, s.Apply(t.Context(), cursorAt(10), other))
		got := expect.Value(s.Owners(t.Context(), []ledger.Address{{19: 10}, {19: 99}}, []ledger.Hash{{31: 10}, {31: 99}}))(t)
		expect.NoDiff(t, got, tally.Learned, "owners")
		if none, err := s.Owners(t.Context(), nil, nil); err != nil || len(none.IPs)+len(none.Disputes) > 0 {
			t.Errorf("Owners of no ids = %+v, %v; want none", none, err)
		}
	})
}

func TestTallyIsAppliedOnlyAtItsCursor(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, tallyTo(10)))
		before := list(t, s, collections.Query{})
		otherHash, otherChain := cursorAt(10), cursorAt(10)
		otherHash.Hash[0], otherChain.Chain = 1, 1315
		for name, prev := range map[string]ledger.Cursor{
			"from the beginning": {}, "from an earlier block": cursorAt(9), "from a later block": cursorAt(11),
			"from another history": otherHash, "from another chain": otherChain,
		} {
			expect.ErrorIs(t, s.Apply(t.Context(), prev, tallyTo(20)), ledger.ErrCursorMoved, "Apply %s", name)
		}
		expect.NoDiff(t, list(t, s, collections.Query{}), before, "page")
		if got, err := s.Owners(t.Context(), []ledger.Address{{19: 20}}, nil); err != nil || len(got.IPs) > 0 {
			t.Errorf("Owners of a refused tally = %v, %v; want none", got, err)
		}
	})
}

func TestEmptyTallyMovesOnlyCursor(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		before := list(t, s, collections.Query{})
		expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, ledger.Tally{Cursor: cursorAt(5)}))
		before.Block = 5
		expect.NoDiff(t, list(t, s, collections.Query{}), before, "page")
		expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor, cursorAt(5), "cursor")
	})
}

func TestIndexingAddsToImportedCollections(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		imported := some(1)
		imported[0].Address = "0xAA00000000000000000000000000000000000002" // apple in upper case
		load(t, s, imported)
		expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, tallyTo(10)))
		want := imported[0]
		want.LicensesCount += 2
		want.RaisedDisputeCount += 3
		want.CancelledDisputeCount += 4
		want.JudgedDisputeCount += 5
		want.ResolvedDisputeCount += 6
		want.UpdatedAt = first.Add(10 * time.Second)
		got := list(t, s, collections.Query{Addresses: []string{apple.String()}})
		expect.NoDiff(t, got.Items, []collections.Collection{want}, "collections")
	})
}

func TestFirstTallyAndImportExcludeEachOther(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s, other := open(t, url, collections.Options{}), open(t, url, collections.Options{})
		begin := tallyTo(10)
		begin.OnlyEmpty = true
		n, err := s.Import(t.Context(), func(yield func(collections.Collection, error) bool) {
			if yield(some(1)[0], nil) {
				expect.NoError(t, other.Apply(t.Context(), ledger.Cursor{}, begin))
			}
		})
		if n != 0 || !errors.Is(err, ledger.ErrCursorMoved) {
			t.Errorf("Import during which an indexer began = %d, %v; want 0, %v", n, err, ledger.ErrCursorMoved)
		}
		expect.Equal(t, list(t, s, collections.Query{}).Total, 2, "total after the first tally")
	})
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		load(t, s, some(1))
		begin := emptyTo(10)
		begin.OnlyEmpty = true
		expect.ErrorIs(t, s.Apply(t.Context(), ledger.Cursor{}, begin), ledger.ErrCursorMoved, "first tally after an import")
		expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor.Block, 0, "block of the cursor")
	})
}

func TestImportsAndTalliesAlternate(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		prev := ledger.Cursor{}
		for _, block := range []int64{10, 20, 30} {
			expect.NoError(t, s.Apply(t.Context(), prev, tallyTo(block)))
			prev = cursorAt(block)
			load(t, s, some(100))
		}
		expect.Equal(t, list(t, s, collections.Query{}).Total, 102, "total")
	})
}

func TestTallyOfManyRowsIsCounted(t *testing.T) {
	t.Parallel()
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		tally := ledger.Tally{Cursor: cursorAt(10), Learned: ledger.Owners{IPs: map[ledger.Address]ledger.Address{}}}
		var ips []ledger.Address
		for i := range 10_000 {
			id := ledger.Address{17: byte(i >> 16), 18: byte(i >> 8), 19: byte(i)}
			ips = append(ips, id)
			tally.Learned.IPs[id] = id
			tally.Changes = append(tally.Changes, ledger.Change{Collection: id, Assets: 1, First: first, Last: first})
		}
		expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, tally))
		expect.NoDiff(t, expect.Value(s.Owners(t.Context(), ips, nil))(t).IPs, tally.Learned.IPs, "owners")
		expect.Equal(t, list(t, s, collections.Query{}).Total, int64(len(ips)), "total")
	})
}

func TestAPIStoreIsNotIndexed(t *testing.T) {
	s := open(t, "http://127.0.0.1:1/api/v4", collections.Options{})
	_, err := s.Mark(t.Context())
	expect.ErrorIs(t, err, collections.ErrNotIndexed, "Mark")
	err = s.Lead(t.Context(), func(context.Context) error { t.Error("Lead called its function, want only an error"); return nil })
	expect.ErrorIs(t, err, collections.ErrNotIndexed, "Lead")
}

func TestAnotherIndexerTakesOver(t *testing.T) {
	t.Parallel()
	url := postgrestest.Schema(t)
	a, b := open(t, url, collections.Options{}), open(t, url, collections.Options{})
	lead := func(ctx context.Context, s *collections.Store, began chan<- struct{}) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- s.Lead(ctx, func(ctx context.Context) error {
				close(began)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, second := make(chan struct{}), make(chan struct{})
	endedA := lead(ctx, a, first)
	<-first
	endedB := lead(ctx, b, second)
	select {
	case <-second:
		t.Error("second indexer leads while the first one does, want it to wait")
	case <-time.After(1500 * time.Millisecond):
	}
	// The first one's connection breaks. Until it notices, both may lead.
	postgrestest.Execute(t, url, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND objid = (hashtextextended(current_schema(), 8388359353092237415) & 4294967295)::oid`)
	wantSilence(t, <-endedA, upstream.Unreachable)
	<-second
	cancel()
	expect.ErrorIs(t, <-endedB, context.Canceled, "Lead")
}

func TestEachSchemaHasItsOwnLeader(t *testing.T) {
	for range 2 {
		s := open(t, postgrestest.Schema(t), collections.Options{})
		began := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Lead(ctx, func(ctx context.Context) error {
				close(began)
				<-ctx.Done()
				return nil
			})
		}()
		<-began
		t.Cleanup(func() { cancel(); <-ended })
	}
}

// emptyTo returns a tally without changes.
func emptyTo(block int64) ledger.Tally { return ledger.Tally{Cursor: cursorAt(block)} }

func TestStoreStepsBackOverBlocksWithoutEvents(t *testing.T) {
	t.Parallel()
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		move := func(from, to int64, tally func(int64) ledger.Tally) {
			t.Helper()
			prev := cursorAt(from)
			if from == 0 {
				prev = ledger.Cursor{}
			}
			expect.NoError(t, s.Apply(t.Context(), prev, tally(to)))
		}
		wantTrail := func(at int64, want ...int64) {
			t.Helper()
			var cursors []ledger.Cursor
			for _, block := range want {
				cursors = append(cursors, cursorAt(block))
			}
			expect.NoDiff(t, expect.Value(s.Trail(t.Context(), cursorAt(at)))(t), cursors, "trail of block %d", at)
		}
		move(0, 1, emptyTo)
		move(1, 2, emptyTo)
		wantTrail(2, 1)
		move(2, 10, tallyTo)
		wantTrail(10)
		move(10, 11, emptyTo)
		move(11, 13, emptyTo)
		wantTrail(13, 11, 10)
		forked := cursorAt(13)
		forked.Hash[0] = 1
		if got, err := s.Trail(t.Context(), forked); err != nil || len(got) > 0 {
			t.Errorf("Trail of a block with another hash = %v, %v; want none", got, err)
		}
		expect.ErrorIs(t, s.StepBack(t.Context(), cursorAt(12), cursorAt(10)), ledger.ErrCursorMoved, "StepBack from another block than the store's")
		before := list(t, s, collections.Query{})
		expect.NoError(t, s.StepBack(t.Context(), cursorAt(13), cursorAt(11)))
		before.Block = 11
		expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor, cursorAt(11), "cursor of the mark")
		expect.NoDiff(t, list(t, s, collections.Query{}), before, "page")
		wantTrail(11, 10)
		for block := int64(11); block < 200; block++ {
			move(block, block+1, emptyTo)
		}
		expect.Equal(t, len(expect.Value(s.Trail(t.Context(), cursorAt(200)))(t)), 64, "length of the trail")
	})
}

func TestTrailEndsAtUnrecordedCursorMove(t *testing.T) {
	url := postgrestest.Schema(t)
	s := open(t, url, collections.Options{})
	for block, prev := int64(1), (ledger.Cursor{}); block < 4; block++ {
		expect.NoError(t, s.Apply(t.Context(), prev, emptyTo(block)))
		prev = cursorAt(block)
	}
	postgrestest.Execute(t, url, `UPDATE index_cursor SET block = 9, hash = decode(repeat('00', 31) || '09', 'hex')`) // as the previous release does
	expect.NoError(t, s.Apply(t.Context(), cursorAt(9), emptyTo(10)))
	got, err := s.Trail(t.Context(), cursorAt(10))
	if err != nil || len(got) != 1 || got[0].Block != 9 {
		t.Errorf("Trail = %+v, %v; want block 9", got, err)
	}
}

func TestNextRebuildBeginsEmptyIfShadowWasNotDropped(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		s := open(t, url, collections.Options{})
		rebuildTo(t, s, 10)
		expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor, cursorAt(10), "cursor after SwapIn")
		expect.Equal(t, list(t, s, collections.Query{}).Total, 2, "total after SwapIn")
		rebuildTo(t, s, 20)
		if err := s.SwapIn(t.Context()); err == nil { // after another rebuild's
			t.Error("SwapIn of an empty shadow store = nil, want an error")
		}
		expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor, cursorAt(20), "cursor after SwapIn of an empty shadow store")
		expect.NoError(t, s.DropShadow(t.Context()))
	})
}

// rebuildTo swaps in a shadow store, which it expects to be empty at first.
func rebuildTo(t *testing.T, s *collections.Store, block int64) {
	t.Helper()
	shadow := expect.Value(s.Shadow(t.Context()))(t)
	expect.Equal(t, list(t, shadow, collections.Query{}).Total, 0, "total of a new shadow store")
	expect.NoError(t, shadow.Apply(t.Context(), ledger.Cursor{}, tallyTo(block)))
	expect.NoError(t, shadow.Close())
	expect.NoError(t, s.SwapIn(t.Context()))
}

func TestShadowSchemaOfAnotherRoleIsEmptied(t *testing.T) {
	server := postgrestest.Schema(t)
	u := expect.Value(url.Parse(server))(t)
	schema := u.Query().Get("search_path")
	role, shadow := schema+"_role", schema+"_rebuild"
	postgrestest.Execute(t, server, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN PASSWORD 'secret'; CREATE SCHEMA %[3]s;
		GRANT CREATE, USAGE ON SCHEMA %[2]s, %[3]s TO %[1]s`, role, schema, shadow))
	t.Cleanup(func() {
		postgrestest.Execute(t, server, fmt.Sprintf("DROP SCHEMA %[2]s CASCADE; DROP OWNED BY %[1]s CASCADE; DROP ROLE %[1]s", role, shadow))
	})
	u.User = url.UserPassword(role, "secret")
	s := open(t, u.String(), collections.Options{})
	unfinished := expect.Value(s.Shadow(t.Context()))(t)
	expect.NoError(t, unfinished.Apply(t.Context(), ledger.Cursor{}, tallyTo(5)))
	expect.NoError(t, unfinished.Close())
	expect.NoError(t, s.DropShadow(t.Context()))
	rebuildTo(t, s, 10)
	expect.NoError(t, s.DropShadow(t.Context()))
}
