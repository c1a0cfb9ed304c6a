package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream/expect"
)

// The line of a repeated request is built from a prepared part. It must equal the line of a first request, also where JSON
// escapes characters.
func TestLineIsTheSameForRepeatedRequests(t *testing.T) {
	var log bytes.Buffer
	r := record.New(record.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a%22b?q=%22\u00e9&stream.api_key=secret", nil)
	request.Header.Set("User-Agent", "a\"b\\c\x01\u00e9")
	rec := &record.Record{
		Route: "balance", Start: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), ID: [1]string{"id"}, Client: limits.Client{Address: netip.MustParseAddr("192.0.2.1"), Key: limits.Key{Name: "a \"b\""}},
		Outcome: "hit", Store: "memory", Height: 7, Tip: 8, Age: 1500 * time.Microsecond,
	}
	end := &record.End{Head: record.HeadOf(request, ""), Status: 200, Size: 3, Took: 1001 * time.Microsecond}
	r.End(rec, end, nil)
	first := log.String()
	log.Reset()
	r.End(rec, end, record.NewRepeated("balance", record.HeadOf(request, "")))
	expect.NoDiff(t, log.String(), first, "line of a repeated request")
	var got map[string]any
	expect.NoError(t, json.Unmarshal([]byte(first), &got))
	want := map[string]any{
		"time": "2026-01-02T03:04:05.001001006Z", "level": "INFO", "msg": "request", "method": "GET", "route": "balance", "path": `/a"b`,
		"query": "q=%22\u00e9&stream.api_key=redacted", "user_agent": "a\"b\\c\x01\u00e9", "status": 200.0, "bytes": 3.0, "duration_ms": 1.001,
		"outcome": "hit", "store": "memory", "height": 7.0, "tip": 8.0, "age_s": 0.0015, "request_id": "id", "client": "192.0.2.1", "tenant": "a \"b\"",
	}
	expect.NoDiff(t, got, want, "line")
}

func TestLineOfFailureHasLevelAndError(t *testing.T) {
	var log bytes.Buffer
	r := record.New(record.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), OnlyFailures: true})
	r.End(&record.Record{Route: "none"}, &record.End{Status: 200}, nil)
	r.End(&record.Record{Route: "none", Err: errors.New("node: \"gone\"")}, &record.End{Status: 502}, nil)
	var got struct{ Level, Error string }
	if err := json.Unmarshal(log.Bytes(), &got); err != nil || got.Level != "ERROR" || got.Error != "node: \"gone\"" {
		t.Errorf("line = %s, want one of level ERROR with the error of the record (%v)", log.String(), err)
	}
}

func TestCachedResponsesAreMeasuredByBlocksOrAge(t *testing.T) {
	start := time.Now()
	entry := func(height int64) *cache.Entry {
		return &cache.Entry{Content: &cache.Content{}, Height: height, ReadAt: start.Add(-3 * time.Second)}
	}
	for name, tt := range map[string]struct {
		result            *cache.Result
		pinned            bool
		tip               int64
		blocks, ages      uint64  // number of observations
		blocksSum, ageSum float64 // sum of the observations
	}{
		"an entry from a block":           {result: &cache.Result{Entry: entry(7)}, tip: 9, blocks: 1, blocksSum: 2},
		"an entry without a block":        {result: &cache.Result{Entry: entry(0)}, tip: 9, ages: 1, ageSum: 3},
		"an entry while no tip is known":  {result: &cache.Result{Entry: entry(7)}, ages: 1, ageSum: 3},
		"an entry at the client's height": {result: &cache.Result{Entry: entry(7)}, pinned: true, tip: 9},
		"a response without an entry":     {tip: 9},
		"an entry from a block after tip": {result: &cache.Result{Entry: entry(10)}, tip: 9, blocks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			r := record.New(record.Options{Logger: slog.New(slog.DiscardHandler), Registerer: registry})
			rec := &record.Record{Route: "balance", Start: start, Pinned: tt.pinned, Tip: tt.tip}
			if tt.result != nil {
				rec.Result(*tt.result)
			}
			r.End(rec, &record.End{Status: http.StatusOK}, nil)
			families := expect.Value(registry.Gather())(t)
			got := map[string]*dto.Histogram{}
			for _, f := range families {
				if len(f.Metric) == 1 {
					got[f.GetName()] = f.Metric[0].GetHistogram()
				}
			}
			for metric, want := range map[string]struct {
				count uint64
				sum   float64
			}{"tipcache_proxy_staleness_blocks": {tt.blocks, tt.blocksSum}, "tipcache_proxy_age_seconds": {tt.ages, tt.ageSum}} {
				if h := got[metric]; h.GetSampleCount() != want.count || h.GetSampleSum() != want.sum {
					t.Errorf("%s = %d observations with sum %v, want %d with %v", metric, h.GetSampleCount(), h.GetSampleSum(), want.count, want.sum)
				}
			}
		})
	}
}

func TestCallersThatJoinedAReadAreCollapsed(t *testing.T) {
	for want, result := range map[string]cache.Result{
		"miss":      {Outcome: cache.Miss},
		"collapsed": {Outcome: cache.Miss, Collapsed: true},
		"hit":       {Outcome: cache.Hit, Collapsed: true},
	} {
		result.Entry = &cache.Entry{Content: &cache.Content{}}
		rec := &record.Record{}
		rec.Result(result)
		expect.Equal(t, rec.Outcome, want, "outcome of %v, collapsed %t", result.Outcome, result.Collapsed)
	}
}

func TestFailedEntryIsTheFaultOfTheServer(t *testing.T) {
	for _, failed := range []bool{true, false} {
		rec := &record.Record{}
		rec.Result(cache.Result{Entry: &cache.Entry{Content: &cache.Content{Failed: failed}}})
		expect.Equal(t, rec.Blameless, !failed, "Blameless with an entry that failed (%t)", failed)
	}
}

func TestServerErrorsAreCountedByFault(t *testing.T) {
	for name, tt := range map[string]struct {
		rec    record.Record
		status int
		want   string
	}{
		"a response":                        {record.Record{Blameless: true}, 200, ""},
		"an error of the node":              {record.Record{}, 502, "server"},
		"an error that the input caused":    {record.Record{Blameless: true}, 500, "input"},
		"a failure that a client can cause": {record.Record{Err: errors.New("late"), Expected: true}, 504, "input"},
		"a lack of capacity":                {record.Record{Err: errors.New("busy"), Expected: true}, 503, "server"},
	} {
		metrics := prometheus.NewRegistry()
		record.New(record.Options{Logger: slog.New(slog.DiscardHandler), Registerer: metrics}).End(&tt.rec, &record.End{Status: tt.status}, nil)
		families := expect.Value(metrics.Gather())(t)
		for _, f := range families {
			if f.GetName() != "tipcache_proxy_requests_total" {
				continue
			}
			if label := f.GetMetric()[0].GetLabel()[0]; label.GetName() != "fault" || label.GetValue() != tt.want {
				t.Errorf("%s: %s = %q, want fault %q", name, label.GetName(), label.GetValue(), tt.want)
			}
		}
	}
}

func TestSkippedSuccessesAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	r := record.New(record.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), SkipLog: 1})
	for _, status := range []int{200, 399, 400} {
		r.End(&record.Record{Route: "none"}, &record.End{Status: status}, nil)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"status":400`) {
		t.Errorf("lines = %s, want one of status 400", got)
	}
}

func TestRequestsAreCountedByKeyName(t *testing.T) {
	metrics := prometheus.NewRegistry()
	r := record.New(record.Options{Logger: slog.New(slog.DiscardHandler), Registerer: metrics})
	end := func(key string, status int) {
		r.End(&record.Record{Route: "pool", Client: limits.Client{Key: limits.Key{Name: key}}}, &record.End{Status: status}, nil)
	}
	for _, status := range []int{200, 404, 403, 429, 429, 502} {
		end("web", status)
	}
	end("app", 200)
	end("", 200)
	want := map[string]float64{"web|answered": 2, "web|refused": 3, "web|failed": 1, "app|answered": 1, "app|refused": 0, "app|failed": 0}
	expect.NoDiff(t, expect.Metrics(t, metrics, "tipcache_proxy_key_requests_total"), want, "requests by key")
}

func TestRepeatedRequestsAreCountedByOutcome(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := record.New(record.Options{Logger: slog.New(slog.DiscardHandler), Registerer: registry})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", nil)
	repeated := record.NewRepeated("balance", record.HeadOf(request, ""))
	for _, outcome := range []string{"hit", "hit", "miss", "hit", "miss"} {
		r.End(&record.Record{Route: "balance", Outcome: outcome}, &record.End{Head: record.HeadOf(request, ""), Status: http.StatusOK}, repeated)
	}
	for outcome, want := range map[string]float64{"hit": 3, "miss": 2} {
		expect.Equal(t, expect.Metric(t, registry, "tipcache_proxy_requests_total", outcome), want, "requests with outcome %s", outcome)
	}
}

func TestLineContainsNoAPIKeys(t *testing.T) {
	const key = "tipcache_ABCDEFGHIJKLMNOPQRSTUVWX23"
	var log bytes.Buffer
	r := record.New(record.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a/"+key+"?q="+key, nil)
	request.Header.Set("User-Agent", key)
	r.End(&record.Record{Route: "none", Err: errors.New("no " + key)}, &record.End{Head: record.HeadOf(request, ""), Status: 502}, nil)
	if got := log.String(); strings.Contains(got, key) || strings.Count(got, "tipcache_redacted") != 4 {
		t.Errorf("line = %s, want four redacted keys", got)
	}
	log.Reset()
	r.End(&record.Record{Route: "tipcache_metrics"}, &record.End{Status: 200}, nil)
	if got := log.String(); !strings.Contains(got, "tipcache_metrics") {
		t.Errorf("line = %s, want the route", got)
	}
}

func TestValidRequestIDIsKept(t *testing.T) {
	for id, want := range map[string]bool{"aZ09-_.:": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "": false, "a b": false, "a/b": false, "a\nb": false} {
		if got := record.RequestID(http.Header{"X-Request-Id": {id}}); (got == id) != want || !want && len(got) != 32 {
			t.Errorf("RequestID of %q = %q, want the same = %t or 32 digits", id, got, want)
		}
	}
	if got := record.RequestID(nil); len(got) != 32 {
		t.Errorf("RequestID without a header = %q, want 32 digits", got)
	}
}

// A slot is a slot of the fast lane that is never used.
type slot struct{ record.LaneSlot }

func TestRequestKeptOutOfLaneHasNoSlot(t *testing.T) {
	rec := &record.Record{LaneSlot: slot{}}
	rec.KeepOutOfLane()
	if rec.LaneSlot != nil {
		t.Errorf("LaneSlot = %v after KeepOutOfLane, want nil", rec.LaneSlot)
	}
}
