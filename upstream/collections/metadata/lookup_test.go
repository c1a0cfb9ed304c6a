package metadata_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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
	expect.EventuallyEqual(t, "both are saved", func() int { return len(store.keys()) }, 2)
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
		s := openAlchemy(t, provider, metadata.Options{Settings: metadata.Settings{Budget: 300 * time.Millisecond}})
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

func TestLongPageIsReadInSeveralBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			describe(w, 0, provider.batches()[len(provider.batches())-1])
		})
		s := openAlchemy(t, provider, metadata.Options{InFlight: 1})
		wantDescribed(t, s, addresses(150), 150, false)
		expect.Equal(t, len(provider.batches()), 2, "batches")
	})
}

func TestPagesWithinFiveMillisecondsShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		s := openAlchemy(t, provider, metadata.Options{})
		var pages sync.WaitGroup
		for i, a := range addresses(8) {
			pages.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				wantDescribed(t, s, []string{a}, 1, false)
			})
		}
		pages.Wait()
		expect.Equal(t, len(provider.batches()), 2, "batches")
	})
}

func TestAddressesShareABatchWhileWorkersAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(slow(time.Second, func(w http.ResponseWriter, _ *http.Request) { describe(w, 0, addresses(20)) }))
		s := openAlchemy(t, provider, metadata.Options{Queue: 12})
		for _, a := range addresses(20) {
			go s.Lookup(t.Context(), []string{a})
			settle()
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
		page.Go(func() { s.Lookup(t.Context(), []string{two}) })
		settle()
		start := time.Now()
		s.Close()
		page.Wait()
		expect.Equal(t, time.Since(start), 0, "duration of Close")
		wantNames(t, s, []string{one, two}, map[string]string{one: "1", two: ""}, true)
		expect.Equal(t, log.String(), "", "log")
	})
}

func TestMissingProviderIsNotAnError(t *testing.T) {
	s, err := metadata.Open(metadata.Options{Settings: metadata.DefaultSettings()})
	if s != nil || err != nil {
		t.Fatalf("Open = %v, %v; want nil, nil", s, err)
	}
	wantNames(t, s, []string{one, "0xAB"}, map[string]string{one: "", "0xab": ""}, false)
	expect.Equal(t, state(s), "off", "state")
	expect.NoError(t, s.Close())
}

func TestRefreshesLeaveHalfOfTheQueueToPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, old := &alchemy{}, map[string]metadata.Record{}
		provider.fail(slow(time.Second, func(w http.ResponseWriter, _ *http.Request) {
			describe(w, 0, provider.batches()[len(provider.batches())-1])
		}))
		all := addresses(400)
		for _, a := range all[10:] {
			old[a] = metadata.Record{Body: []byte(`{"name":"old"}`), ReadAt: time.Now().Add(-3 * day)}
		}
		s := openAlchemy(t, provider, metadata.Options{Settings: metadata.Settings{Budget: 5 * time.Second}, Store: &memory{records: old}, Queue: 120, InFlight: 1})
		go s.Lookup(t.Context(), all[:1])
		settle() // the provider is busy
		wantDescribed(t, s, all[10:], 390, false)
		wantDescribed(t, s, all[:10], 10, false)
		settle()
		expect.Equal(t, len(provider.batches()), 2, "batches")
		expect.Equal(t, len(provider.batches()[1]), 9+59, "contracts in the second batch")
	})
}
