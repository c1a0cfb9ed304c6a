package metadata_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

	wantNames(t, s, []string{upper, two, one, "0x12", "nobody"}, map[string]string{one: "1", two: "1", "0x12": "", "nobody": ""}, false)
	expect.Eventually(t, "both are saved", func() bool { return len(store.keys()) == 2 })
	found, _ := s.Lookup(t.Context(), append(addresses(3), two))
	count := map[string]int{}
	for _, name := range names(t, found) {
		count[name]++
	}
	expect.NoDiff(t, count, map[string]int{"1": 1, "2": 3}, "contracts by name")
	for label, want := range map[string]float64{"hit": 1, "stale": 0, "miss": 5} {
		expect.Equal(t, expect.Metric(t, registry, "tipcache_metadata_contracts_total", label), want, "contracts counted as %s", label)
	}
}

func TestLateMetadataIsOnTheNextPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(slow(2*time.Second, text(`[{"address":"`+one+`","name":"late"}]`)))
		s := openAlchemy(t, provider, metadata.Options{Budget: 300 * time.Millisecond})
		start := time.Now()
		if name, degraded := lookup(t, s, one); name != "" || !degraded || time.Since(start) != 300*time.Millisecond {
			t.Errorf("first page = %q, degraded %v, after %v; want no name, degraded, after 300ms", name, degraded, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		wantName(t, s, one, "late", false)
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
		wantName(t, s, one, "x", false)
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
				wantNames(t, s, []string{one, two}, map[string]string{one: "x", two: "y"}, false)
			})
		}
		pages.Wait()
		expect.NoDiff(t, provider.batches(), [][]string{{one, two}}, "batches")
	})
}

// Another page begins and ends after the page has read the store.
func TestOvertakenPageDoesNotRequestMetadataAgain(t *testing.T) {
	provider, store := &alchemy{}, &memory{}
	s := openAlchemy(t, provider, unhurried(metadata.Options{Store: store}))
	var loads atomic.Int64
	store.loaded = func() {
		if loads.Add(1) == 1 {
			lookup(t, s, one)
		}
	}
	wantName(t, s, one, "1", false)
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
		wantDescribed(t, s, addresses(150), 100, true)
		time.Sleep(time.Second)
		wantDescribed(t, s, addresses(150), 150, false)
		expect.Equal(t, len(provider.batches()), 2, "batches")
	})
}

func TestAddressesShareABatchWhileWorkersAreBusy(t *testing.T) {
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
		provider, log := &alchemy{}, &logBuffer{}
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
		wantNames(t, s, []string{one, two}, map[string]string{one: "1", two: ""}, true)
		expect.Equal(t, log.String(), "", "log")
	})
}

func TestMissingProviderIsNotAnError(t *testing.T) {
	s, err := metadata.Open("none", metadata.Options{})
	if s != nil || err != nil {
		t.Fatalf("Open = %v, %v; want nil, nil", s, err)
	}
	wantNames(t, s, []string{one, "0xAB"}, map[string]string{one: "", "0xab": ""}, false)
	expect.Equal(t, state(s), "off", "state")
	expect.NoError(t, s.Close())
}

func TestContractsInBackgroundLeaveHalfOfTheQueueToPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(slow(time.Second, func(w http.ResponseWriter, _ *http.Request) {
			describe(w, 0, provider.batches()[len(provider.batches())-1])
		}))
		s := openAlchemy(t, provider, metadata.Options{Queue: 120, InFlight: 1, Budget: 5 * time.Second})
		all := addresses(400)
		go s.Lookup(t.Context(), all[:1])
		synctest.Wait()                     // the provider is busy
		go s.Lookup(t.Context(), all[:390]) // 100 contracts in the foreground
		synctest.Wait()
		wantDescribed(t, s, all[390:], 10, false)
	})
}
