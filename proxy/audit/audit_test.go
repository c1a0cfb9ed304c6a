package audit_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/audit"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// nodes answer in this order. bodies contains the bodies of a node, separated by spaces; the last one repeats. "" is a
// failure, and "busy" a node without capacity.
type nodes []struct{ name, bodies string }

func (n nodes) origin(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := cache.ReadingOf(ctx)
	chosen := -1
	for i := range n {
		if (r.Only == "" || r.Only == n[i].name) && (chosen < 0 || n[chosen].name == r.Avoid) {
			chosen = i
		}
	}
	if chosen < 0 {
		return nil, errors.New("no such node")
	}
	body, next, changes := strings.Cut(n[chosen].bodies, " ")
	if changes {
		n[chosen].bodies = next
	}
	switch body {
	case "":
		return nil, errors.New("no answer")
	case "busy":
		return nil, cache.ErrYielded
	}
	r.Node, r.At = n[chosen].name, prev.Height
	return &cache.Entry{Content: content(body), Height: prev.Height}, nil
}

// content returns a 404 if the body begins with a question mark.
func content(body string) *cache.Content {
	status := 200
	if strings.HasPrefix(body, "?") {
		status = 404
	}
	return cache.NewContent(status, "application/json", "", []byte(body), 0)
}

func TestOnlyConfirmedDifferencesCount(t *testing.T) {
	tests := map[string]struct {
		cached, source string // source "" is Redis
		nodes          nodes
		want           map[string]int64
		result         string // in the metric
	}{
		"equal nodes":                           {"x", "a", nodes{{"a", "x"}, {"b", "x"}}, nil, "same"},
		"one consistent node":                   {"x", "a", nodes{{"a", "x"}}, nil, "same"},
		"Redis equal to a node":                 {"x", "", nodes{{"a", "x"}}, nil, "same"},
		"different nodes":                       {"x", "a", nodes{{"a", "x"}, {"b", "y"}}, map[string]int64{"a": 1, "b": 1}, "different"},
		"a node with a changed answer":          {"x", "a", nodes{{"a", "y"}, {"b", "y"}}, map[string]int64{"a": 1}, "different"},
		"the only node with a changed answer":   {"x", "a", nodes{{"a", "y"}}, map[string]int64{"a": 1}, "different"},
		"Redis different from one node":         {"x", "", nodes{{"a", "y"}}, map[string]int64{"redis": 1}, "different"},
		"Redis different from two nodes":        {"x", "", nodes{{"a", "y"}, {"b", "y"}}, map[string]int64{"redis": 1}, "different"},
		"Redis confirmed by another node":       {"x", "", nodes{{"a", "y"}, {"b", "x"}}, map[string]int64{"a": 1}, "different"},
		"a node with different answers":         {"x", "a", nodes{{"a", "y"}, {"b", "z w"}}, map[string]int64{"b": 1}, "varying"},
		"the only node with different answers":  {"x", "a", nodes{{"a", "y z w"}}, map[string]int64{"a": 1}, "varying"},
		"a difference that disappears":          {"x", "a", nodes{{"a", "x"}, {"b", "y x"}}, nil, "unsettled"},
		"a failing node":                        {"x", "a", nodes{{"a", "x"}, {"b", ""}}, nil, "failed"},
		"a node that is busy at first":          {"x", "a", nodes{{"a", "x"}, {"b", "busy busy y"}}, map[string]int64{"a": 1, "b": 1}, "different"},
		"different texts of not found":          {"?no", "a", nodes{{"a", "?no"}, {"b", "?none"}}, nil, "same"},
		"an answer that another node lacks":     {"x", "a", nodes{{"a", "x"}, {"b", "?no"}}, map[string]int64{"a": 1, "b": 1}, "different"},
		"not found although a node has it":      {"?no", "a", nodes{{"a", "x"}, {"b", "x"}}, map[string]int64{"a": 1}, "different"},
		"a node that fails at the confirmation": {"x", "a", nodes{{"a", ""}, {"b", "y"}}, nil, "unsettled"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(logtest.Log)
				registry := prometheus.NewPedanticRegistry()
				a := runAuditor(t, audit.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: registry})
				a.Enqueue(cache.NewEntry{
					Key: "k", Shared: test.source == "", Node: test.source, Origin: test.nodes.origin,
					Entry: &cache.Entry{Content: content(test.cached), Height: 7},
				})
				time.Sleep(time.Minute)
				got := map[string]int64{}
				for source, f := range a.Findings() {
					got[source] = f.Differences
					if f.Key != "k" || f.Height != 7 || f.Row != rowOf("k") || !strings.Contains(log.String(), `row="row of k"`) {
						t.Errorf("finding = %+v, want key k at height 7 with its row, and a log line with it", f)
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" && len(test.want)+len(got) > 0 {
					t.Errorf("differences -want +got:\n%s", diff)
				}
				for result, count := range expect.Metrics(t, registry, "tipcache_audit_entries_total") {
					if (count == 1) != (result == test.result) {
						t.Errorf("entries with result %s = %v, want 1 for %s only", result, count, test.result)
					}
				}
				if n := log.Count("answers differ") + log.Count("answers at one height vary"); (n == 1) != (len(test.want) > 0) {
					t.Errorf("log lines about differences = %d, want 1 if there are any:\n%s", n, log)
				}
			})
		})
	}
}

func rowOf(key string) string { return "row of " + key }

// runAuditor runs an auditor of all entries until the test ends.
func runAuditor(t *testing.T, o audit.Options) *audit.Auditor {
	o.Share, o.Row, o.Epoch = 1, rowOf, func() int64 { return 0 }
	if o.Varies == nil {
		o.Varies = func(string) bool { return false }
	}
	a := audit.New(o)
	go a.Run(t.Context())
	return a
}

// An alert compares with an earlier sample, and the first difference must fire it.
func TestDifferencesOfEachAuditedSourceBeginAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		a := runAuditor(t, audit.Options{Registerer: registry})
		a.Enqueue(cache.NewEntry{Key: "k", Node: "a", Origin: nodes{{"a", "x"}, {"b", "x"}}.origin, Entry: &cache.Entry{Content: content("x"), Height: 7}})
		time.Sleep(time.Minute)
		expect.NoDiff(t, expect.Metrics(t, registry, "tipcache_audit_differences_total"), map[string]float64{"a": 0, "b": 0, "redis": 0}, "differences by source")
	})
}

func TestFindingsEndADayAfterTheLastDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := runAuditor(t, audit.Options{})
		a.Enqueue(cache.NewEntry{Key: "k", Node: "a", Origin: nodes{{"a", "y"}}.origin, Entry: &cache.Entry{Content: content("x"), Height: 7}})
		time.Sleep(23 * time.Hour)
		expect.Equal(t, len(a.Findings()), 1, "findings after 23 hours")
		time.Sleep(2 * time.Hour)
		expect.Equal(t, len(a.Findings()), 0, "findings after 25 hours")
	})
}

func TestVaryingEntriesAreNotAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := runAuditor(t, audit.Options{Varies: func(key string) bool { return key == "k" }})
		a.Enqueue(cache.NewEntry{Key: "k", Node: "a", Origin: nodes{{"a", "y"}}.origin, Entry: &cache.Entry{Content: content("x"), Height: 7}})
		time.Sleep(time.Minute)
		if found := a.Findings(); len(found) > 0 {
			t.Errorf("findings = %+v, want none", found)
		}
	})
}

func TestEntriesWithoutAHeightAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := runAuditor(t, audit.Options{})
		read := false
		origin := func(context.Context, *cache.Entry) (*cache.Entry, error) {
			read = true
			return nil, errors.New("unexpected read")
		}
		a.Enqueue(cache.NewEntry{Entry: &cache.Entry{Content: content("x")}, Origin: origin})
		a.Enqueue(cache.NewEntry{Entry: &cache.Entry{Content: cache.NewContent(502, "", "", nil, 0), Height: 7}, Origin: origin})
		time.Sleep(time.Minute)
		if read {
			t.Error("origin of an entry without height or with status 502 was read, want no read")
		}
	})
}

func TestBodiesOfQueuedEntriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		a := audit.New(audit.Options{Share: 1, Row: rowOf, Epoch: func() int64 { return 0 }, Varies: func(string) bool { return false }, Registerer: registry})
		enqueue := func() {
			for range 9 {
				body := strings.Repeat("x", 1<<20)
				a.Enqueue(cache.NewEntry{Node: "a", Origin: nodes{{"a", body}}.origin, Entry: &cache.Entry{Content: content(body), Height: 7}})
			}
		}
		skipped := func() float64 { return expect.Metric(t, registry, "tipcache_audit_entries_total", "skipped") }
		enqueue()
		expect.Equal(t, skipped(), 1, "skipped of 9 entries of 1 MiB")
		go a.Run(t.Context())
		time.Sleep(time.Minute)
		enqueue()
		expect.Equal(t, skipped(), 1, "skipped after 9 more, while they are read")
	})
}
