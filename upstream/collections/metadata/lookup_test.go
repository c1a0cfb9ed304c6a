package metadata_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPageRequestsMissingMetadataOnce(t *testing.T) {
	server := httptest.NewServer(&alchemy{})
	defer server.Close()
	store, registry := &memory{}, prometheus.NewRegistry()
	s := open(t, "alchemy:"+server.URL+"/nft/v3/"+key, unhurried(metadata.Options{Store: store, Registerer: registry}))
	upper := "0x" + strings.ToUpper(one[2:])

	found, degraded := s.Lookup(t.Context(), []string{upper, two, one, "0x12", "nobody"})
	want := map[string]string{one: "1", two: "1", "0x12": "", "nobody": ""}
	if diff := cmp.Diff(want, names(t, found)); diff != "" || degraded {
		t.Errorf("degraded %v, -want +got:\n%s", degraded, diff)
	}
	expect.Eventually(t, "both are saved", func() bool { return len(store.keys()) == 2 })
	found, _ = s.Lookup(t.Context(), append(addresses(3), two))
	expect.NoDiff(t, tally(names(t, found)), map[string]int{"1": 1, "2": 3}, "names")
	for label, want := range map[string]float64{"hit": 1, "stale": 0, "miss": 5} {
		if got := expect.Metric(t, registry, "tipcache_metadata_contracts_total", label); got != want {
			t.Errorf("%v contracts counted as %s, want %v", got, label, want)
		}
	}
}

func tally(names map[string]string) map[string]int {
	n := map[string]int{}
	for name := range maps.Values(names) {
		n[name]++
	}
	return n
}

func TestLateMetadataIsOnTheNextPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(slow(2*time.Second, text(`[{"address":"`+one+`","name":"late"}]`)))
		s := openAlchemy(t, provider, metadata.Options{Budget: 300 * time.Millisecond})
		start := time.Now()
		if name, degraded := lookup(t, s, one); name != "" || !degraded || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%q, degraded %v, after %v", name, degraded, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		if name, degraded := lookup(t, s, one); name != "late" || degraded {
			t.Errorf("the next page has %q, degraded %v", name, degraded)
		}
		expect.Equal(t, len(provider.batches()), 1, "batches")
	})
}

func TestLeavingCallerDoesNotCancelSharedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: slow(100*time.Millisecond, text(`[{"address":"`+one+`","name":"x"}]`))}
		s := openAlchemy(t, provider, metadata.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, degraded := s.Lookup(ctx, []string{one}); !degraded {
			t.Error("page is not degraded, want it degraded")
		}
		if name, degraded := lookup(t, s, one); name != "x" || degraded {
			t.Errorf("%q, degraded %v", name, degraded)
		}
	})
}

func TestConcurrentPagesShareLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(slow(100*time.Millisecond, text(`[{"address":"`+one+`","name":"x"},{"address":"`+two+`","name":"y"}]`)))
		s := openAlchemy(t, provider, metadata.Options{})
		var pages sync.WaitGroup
		for range 50 {
			pages.Go(func() {
				found, degraded := s.Lookup(t.Context(), []string{one, two})
				if diff := cmp.Diff(map[string]string{one: "x", two: "y"}, names(t, found)); diff != "" || degraded {
					t.Errorf("degraded %v, -want +got:\n%s", degraded, diff)
				}
			})
		}
		pages.Wait()
		expect.NoDiff(t, provider.batches(), [][]string{{one, two}}, "batches")
	})
}

// The page has read the store when another page begins and ends.
func TestOvertakenPageDoesNotRequestMetadataAgain(t *testing.T) {
	provider, store := &alchemy{}, &memory{}
	s := openAlchemy(t, provider, unhurried(metadata.Options{Store: store}))
	var loads atomic.Int64
	store.loaded = func() {
		if loads.Add(1) == 1 {
			lookup(t, s, one)
		}
	}
	if name, degraded := lookup(t, s, one); name != "1" || degraded {
		t.Errorf("%q, degraded %v", name, degraded)
	}
	expect.Equal(t, len(provider.batches()), 1, "batches")
}

func TestLongPageWaitsOnlyForItsFirstBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond * time.Duration(len(provider.batches())))
			describe(w, 0, provider.batches()[len(provider.batches())-1])
		})
		s := openAlchemy(t, provider, metadata.Options{InFlight: 1})
		found, degraded := s.Lookup(t.Context(), addresses(150))
		if n := described(found); n != 100 || !degraded {
			t.Errorf("%d contracts, degraded %v", n, degraded)
		}
		time.Sleep(time.Second)
		found, degraded = s.Lookup(t.Context(), addresses(150))
		if n := described(found); n != 150 || degraded {
			t.Errorf("%d contracts on the next page, degraded %v", n, degraded)
		}
		expect.Equal(t, len(provider.batches()), 2, "batches")
	})
}

func TestAddressesThatFindEveryWorkerBusyShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(slow(time.Second, func(w http.ResponseWriter, _ *http.Request) { describe(w, 0, addresses(20)) }))
		s := openAlchemy(t, provider, metadata.Options{Queue: 10})
		for _, a := range addresses(20) {
			go s.Lookup(t.Context(), []string{a})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		var sizes []int
		for _, batch := range provider.batches() {
			sizes = append(sizes, len(batch))
		}
		expect.NoDiff(t, sizes, []int{1, 1, 10}, "batch sizes")
	})
}

func TestCloseDoesNotWaitForTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, log := &alchemy{}, &logged{}
		s := openAlchemy(t, provider, metadata.Options{Logger: log.logger()})
		lookup(t, s, one)
		provider.fail(slow(time.Minute, status(http.StatusOK)))
		var page sync.WaitGroup
		start := time.Now()
		page.Go(func() { s.Lookup(t.Context(), []string{two}) })
		synctest.Wait()
		s.Close()
		page.Wait()
		expect.Equal(t, time.Since(start), 0, "duration of Close")
		found, degraded := s.Lookup(t.Context(), []string{one, two})
		if diff := cmp.Diff(map[string]string{one: "1", two: ""}, names(t, found)); diff != "" || !degraded {
			t.Errorf("a closed service: degraded %v, -want +got:\n%s", degraded, diff)
		}
		if log.String() != "" {
			t.Errorf("log: %s", log)
		}
	})
}

func TestMissingProviderIsNotAnError(t *testing.T) {
	s, err := metadata.Open("none", metadata.Options{})
	if s != nil || err != nil {
		t.Fatalf("got %v, %v", s, err)
	}
	found, degraded := s.Lookup(t.Context(), []string{one, "0xAB"})
	if diff := cmp.Diff(map[string]string{one: "", "0xab": ""}, names(t, found)); diff != "" || degraded {
		t.Errorf("degraded %v, -want +got:\n%s", degraded, diff)
	}
	if state(s) != "off" || s.Close() != nil {
		t.Errorf("state %s", state(s))
	}
}
