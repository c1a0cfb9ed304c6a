package blocks_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// startWaiting sends n requests that wait, one after another. It returns the first refusal, or "waits".
func (d *frontend) startWaiting(t *testing.T, n int, address string, query func() *blocks.Read) (refusal string) {
	t.Helper()
	for range n {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		r.Record.Client = limits.Client{Address: netip.MustParseAddr(address)}
		ended := make(chan error, 1)
		go func() {
			_, err := d.read(r, query())
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			return failure.Of(err).Public
		default:
		}
	}
	return "waits"
}

func TestWaitingRequestsPerClientAreLimited(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		ofNextBlock := func() *blocks.Read {
			return d.query(web.Heights{Min: d.Nodes.Tip().Height + 1}, blocks.Snapshot{})()
		}
		for _, step := range []struct {
			n       int
			address string
			want    string
		}{
			{501, "192.0.2.1", "waits"},
			{1, "192.0.2.1", "too many requests of this client wait for a block"},
			{50, "192.0.2.2", "waits"},
			{1, "192.0.2.2", "too many requests of this client wait for a block"},
			{449, "127.0.0.1", "waits"}, // may stand for many clients
			{1, "127.0.0.1", "too many requests wait for a block"},
		} {
			if got := d.startWaiting(t, step.n, step.address, ofNextBlock); got != step.want {
				t.Fatalf("%d more requests from %s: %s, want %s", step.n, step.address, got, step.want)
			}
		}
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		page := d.query(web.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1})()
		began := time.Now()
		a, err := d.read(r, page)
		if err != nil || a.Entry.Height != 100 || time.Since(began) > 0 {
			t.Errorf("page of block 101 without a place to wait: %+v, %v after %v, want block 100 at once", a.Entry, err, time.Since(began))
		}
		d.nodes.grow(1) // wakes one request
		for range 999 {
			d.nodes.moved <- struct{}{}
		}
		synctest.Wait()
		expect.Equal(t, d.startWaiting(t, 501, "192.0.2.3", ofNextBlock), "waits", "501 requests after the block arrived")
		d.nodes.grow(1)
	})
}

// An alert on slow requests must not fire because clients wait for blocks, but must fire because nodes are slow.
func TestDurationExcludesTheWaitForABlock(t *testing.T) {
	for name, tt := range map[string]struct {
		heights web.Heights
		walk    blocks.Snapshot
		want    float64
	}{
		"a block":                           {heights: web.Heights{Min: 101}, want: 1},
		"a block of the execution client":   {heights: web.Heights{EVM: 1101}, want: 5}, // and two reads of nodes
		"a block of a page on this replica": {walk: blocks.Snapshot{Height: 101, Epoch: 1}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.executing = 2 * time.Second
				registry := prometheus.NewPedanticRegistry()
				r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				rec := &r.Record
				rec.Start = time.Now()
				time.AfterFunc(3*time.Second, func() { d.nodes.grow(1) })
				expect.Value(d.read(r, d.query(tt.heights, tt.walk)()))(t)
				time.Sleep(time.Second)
				record.New(record.Options{Registerer: registry}).End(rec, &record.End{Status: http.StatusOK, Took: time.Since(rec.Start)}, nil)
				for _, family := range expect.Value(registry.Gather())(t) {
					if family.GetName() == "tipcache_proxy_request_duration_seconds" {
						expect.Equal(t, family.GetMetric()[0].GetHistogram().GetSampleSum(), tt.want, "duration")
						return
					}
				}
				t.Error("no duration was counted")
			})
		})
	}
}

func TestRequestsOfOneClientLeaveThePlacesOfTheCacheToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFrontend(t, cache.Options{MaxWaiters: 20}, web.Options{})
		d.nodes.hangs.Store(true)
		page := d.query(web.Heights{}, blocks.Snapshot{})
		batch := func() *blocks.Read {
			return &blocks.Read{Key: "test/batch", Kind: d.kind, Batch: &blocks.Batch{Parts: []*blocks.Read{page()}}}
		}
		const refused = "too many requests of this client are waiting"
		for _, step := range []struct {
			n       int
			address string
			query   func() *blocks.Read
			want    string
		}{
			{11, "192.0.2.1", page, "waits"},
			{1, "192.0.2.1", page, refused},
			{1, "192.0.2.2", batch, refused}, // the batch has a place, and its part has none
			{1, "192.0.2.2", page, "waits"},
			{8, "127.0.0.1", page, "waits"}, // may stand for many clients
			{1, "127.0.0.1", page, "too many requests are waiting"},
		} {
			if got := d.startWaiting(t, step.n, step.address, step.query); got != step.want {
				t.Fatalf("%d more requests from %s: %s, want %s", step.n, step.address, got, step.want)
			}
		}
	})
}

func TestBackgroundReadOfABatchUsesNoPlacesOfItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFrontend(t, cache.Options{MaxWaiters: 20}, web.Options{})
		working := &chain{tip: d.nodes.tip}
		part := &blocks.Read{Key: "test/part", Kind: d.kind, Source: read{working}}
		get := func() outcome {
			r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			r.Record.Client = limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
			a := expect.Value(d.read(r, d.batchOf(part)))(t)
			return outcome{a.Entry.Height, string(a.Outcome)}
		}
		expect.Equal(t, get(), outcome{100, "miss"}, "first batch")
		d.nodes.hangs.Store(true)
		expect.Equal(t, d.startWaiting(t, 11, "192.0.2.1", d.query(web.Heights{}, blocks.Snapshot{})), "waits", "other requests")
		d.nodes.grow(1)
		working.grow(1)
		expect.Equal(t, get(), outcome{100, "stale"}, "batch of a client that uses its share")
		synctest.Wait()
		expect.Equal(t, get(), outcome{101, "hit"}, "next batch")
	})
}
