package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// followed is a list service whose store counts its changes.
func followed(t *testing.T, policy cache.Policy, options ...func(*proxy.Options)) (s *listService, change func(to int64)) {
	known := watchedAt(collections.Mark{})
	s = startList(t, listing.Options{Policy: policy, Watch: known}, options...)
	return s, func(to int64) {
		s.store.will(func(context.Context, collections.Query) (collections.Page, error) {
			c := worldOfWomen()
			c.LicensesCount = to
			return collections.Page{Items: []collections.Collection{c}, Total: 1, Generation: to}, nil
		})
		known.to(collections.Mark{Generation: to, Cursor: ledger.Cursor{Chain: 1}})
	}
}

// A watched store has come to the block of 3.5 s ago.
type watched struct {
	mark  atomic.Pointer[collections.Mark]
	moved atomic.Pointer[chan struct{}] // closed, and replaced, at each other mark
}

func watchedAt(m collections.Mark) *watched {
	w, moved := &watched{}, make(chan struct{})
	w.moved.Store(&moved)
	w.to(m)
	return w
}

func (w *watched) to(m collections.Mark) {
	w.mark.Store(&m)
	moved := make(chan struct{})
	close(*w.moved.Swap(&moved))
}

func (w *watched) Mark() *collections.Mark {
	m := *w.mark.Load()
	m.Cursor.Time = time.Now().Add(-3500 * time.Millisecond)
	return &m
}

func (w *watched) Counted(generation int64) int64 {
	return map[int64]int64{1: 105, 2: 106, 3: 107}[generation]
}

func (w *watched) Since(block int64) (int64, time.Time) {
	for generation := int64(1); generation <= 3; generation++ {
		if w.Counted(generation) >= block {
			return generation, time.Now()
		}
	}
	return 0, time.Time{}
}

func (w *watched) Await(ctx context.Context, block int64) error {
	for {
		moved := *w.moved.Load()
		if w.mark.Load().Cursor.Block >= block {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// countedTo is the mark of a store that follows a chain.
func countedTo(generation, block int64) collections.Mark {
	return collections.Mark{Generation: generation, Total: 1, Cursor: ledger.Cursor{Chain: 1, Block: block}}
}

// aDay is a policy by which seconds make nothing old, so that it is no matter
// when a test runs.
var aDay = cache.Policy{Fresh: time.Hour, Stale: 1e6 * time.Hour, StaleIfError: 1e6 * time.Hour, Keep: 1e6 * time.Hour}

func TestAPageIsFreshWhileTheStoreDoesNotChange(t *testing.T) {
	s, change := followed(t, aDay)
	for generation := int64(1); generation <= 3; generation++ {
		change(generation)
		for range 5 {
			res, body := s.post(t, `{}`)
			if want := `"licensesCount":` + string(rune('0'+generation)) + ","; !strings.Contains(body, want) {
				t.Errorf("generation %d: %s", generation, body)
			}
			if got := res.Header.Get("X-Block-Height"); got != "" {
				t.Errorf("X-Block-Height: %s", got)
			}
		}
	}
	if got := s.store.calls.Load(); got != 3 {
		t.Errorf("the store was asked %d times for 3 generations", got)
	}
	if res, _ := s.post(t, `{}`); !strings.HasSuffix(res.Header.Get("Cache-Status"), `detail="memory behind=3s"`) {
		t.Errorf("Cache-Status: %s", res.Header.Get("Cache-Status"))
	}
}

func TestAnOutdatedPageOutlivesTheStore(t *testing.T) {
	s, change := followed(t, aDay)
	change(1)
	_, before := s.post(t, `{}`)
	change(2)
	s.store.fail(errSilent)
	res, after := s.post(t, `{}`)
	if after != before || !strings.Contains(res.Header.Get("Cache-Status"), "stale-if-error") {
		t.Errorf("%s %s", res.Header.Get("Cache-Status"), after)
	}
}

func TestAnUnchangedPageIsReadAnewForItsMetadata(t *testing.T) {
	s, change := followed(t, cache.Policy{Fresh: time.Second, Stale: time.Second, StaleIfError: time.Hour, Keep: time.Hour})
	change(1)
	s.post(t, `{}`)
	eventually(t, "the store is asked again", func() bool {
		s.post(t, `{}`)
		return s.store.calls.Load() > 1
	})
}

// indexed is a list service whose store follows a chain.
func indexed(t *testing.T) (s *listService, to func(collections.Mark)) {
	return indexedWithin(t, 10*time.Second)
}

// indexedWithin starts one whose requests wait so long for a block.
func indexedWithin(t *testing.T, wait time.Duration) (s *listService, to func(collections.Mark)) {
	known := watchedAt(collections.Mark{})
	s = startList(t, listing.Options{Policy: aDay, MinHeightWait: wait, Watch: known, Filled: true})
	return s, func(m collections.Mark) {
		s.store.will(func(context.Context, collections.Query) (collections.Page, error) {
			if m.Total == 0 {
				return collections.Page{Items: []collections.Collection{}, Generation: m.Generation}, nil
			}
			return collections.Page{Items: []collections.Collection{worldOfWomen()}, Total: 1, Generation: m.Generation}, nil
		})
		known.to(m)
	}
}

func TestAPageSaysItsBlock(t *testing.T) {
	s, to := indexed(t)
	says := func(want string) {
		t.Helper()
		if res, body := s.post(t, `{}`); res.StatusCode != http.StatusOK || res.Header.Get("X-Evm-Block") != want {
			t.Errorf("status %d, block %q, want %q: %s", res.StatusCode, res.Header.Get("X-Evm-Block"), want, body)
		}
	}
	to(countedTo(1, 100))
	says("100")
	to(countedTo(1, 105)) // blocks without events
	says("105")
	if s.store.calls.Load() != 1 {
		t.Errorf("the store was asked %d times", s.store.calls.Load())
	}
	to(countedTo(2, 106))
	says("106")
	s.store.fail(errSilent)
	to(countedTo(3, 107))
	s.store.fail(errSilent)
	says("106") // an outdated page
}

func TestABlockIsWaitedFor(t *testing.T) {
	hasty, at := indexedWithin(t, 20*time.Millisecond)
	at(countedTo(1, 100))
	for block, want := range map[string]int{"100": 200, "1": 200, "101": 504, "0": 400, "-1": 400, "+5": 400, "x": 400, "99999999999999999999": 400} {
		res, body := hasty.post(t, `{}`, "X-Min-Evm-Block", block)
		if res.StatusCode != want || want == 504 && !strings.Contains(body, "block 101 has not been counted; the last one is 100") {
			t.Errorf("%q: status %d: %s", block, res.StatusCode, body)
		}
		if want >= 400 && res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%q: %s", block, res.Header.Get("Content-Type"))
		}
	}
	s, to := indexed(t)
	ask := func(block string) (*http.Response, string) { return s.post(t, `{}`, "X-Min-Evm-Block", block) }
	to(countedTo(1, 100))
	time.AfterFunc(50*time.Millisecond, func() { to(countedTo(2, 101)) })
	if res, body := ask("101"); res.StatusCode != http.StatusOK || res.Header.Get("X-Evm-Block") != "101" {
		t.Errorf("status %d, block %s: %s", res.StatusCode, res.Header.Get("X-Evm-Block"), body)
	}
	to(collections.Mark{Generation: 3, Total: 1}) // it was imported
	if res, body := ask("101"); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "no indexer fills this store") {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
}

func TestAStoreThatIsBeingFilledIsNotAnEmptyOne(t *testing.T) {
	s, to := indexed(t)
	to(collections.Mark{Generation: 1})
	if res, body := s.post(t, `{}`); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, "filled for the first time") {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	to(countedTo(1, 5))
	if res, body := s.post(t, `{}`); res.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
}

func TestAPageBelowTheBlockThatARequestNamesIsNeverServed(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _ collections.Query) (collections.Page, error) {
		<-ctx.Done()
		return collections.Page{}, context.Cause(ctx)
	}
	failsWith := func(err error) func(context.Context, collections.Query) (collections.Page, error) {
		return func(context.Context, collections.Query) (collections.Page, error) { return collections.Page{}, err }
	}
	for name, tt := range map[string]struct {
		store func(context.Context, collections.Query) (collections.Page, error)
		want  int
	}{
		"the store fails":         {failsWith(errSilent), http.StatusBadGateway},
		"the store is overloaded": {failsWith(collections.Busy(errSilent)), http.StatusServiceUnavailable},
		"the store is slow":       {hangs, http.StatusGatewayTimeout},
		"a standby database lags": {func(context.Context, collections.Query) (collections.Page, error) {
			return collections.Page{Items: []collections.Collection{worldOfWomen()}, Total: 1, Generation: 1}, nil
		}, http.StatusServiceUnavailable},
	} {
		known := watchedAt(collections.Mark{})
		s := startList(t, listing.Options{Policy: aDay, Watch: known, Filled: true}, func(o *proxy.Options) { o.Web.RequestTimeout = 200 * time.Millisecond })
		s.store.will(func(context.Context, collections.Query) (collections.Page, error) {
			return collections.Page{Items: []collections.Collection{worldOfWomen()}, Total: 1, Generation: 1}, nil
		})
		known.to(countedTo(1, 105))
		s.post(t, `{}`)
		known.to(countedTo(2, 106))
		s.store.will(tt.store)
		for range 3 {
			if res, body := s.post(t, `{}`, "X-Min-Evm-Block", "106"); res.StatusCode != tt.want {
				t.Errorf("%s: status = %d with block %q, want %d: %s", name, res.StatusCode, res.Header.Get("X-Evm-Block"), tt.want, body)
			}
		}
		for _, block := range []string{"", "105"} { // the page has counted it
			if res, body := s.post(t, `{}`, "X-Min-Evm-Block", block); res.StatusCode != http.StatusOK || res.Header.Get("X-Evm-Block") != "105" {
				t.Errorf("%s, asked for %q: status = %d with block %q, want 200 with 105: %s", name, block, res.StatusCode, res.Header.Get("X-Evm-Block"), body)
			}
		}
	}
}
