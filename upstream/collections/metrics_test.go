package collections_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
)

func TestPagesAreMeasuredByResult(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := open(t, "postgres://user:secret@127.0.0.1:1/db?sslmode=disable", collections.Options{Registerer: registry})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = s.List(t.Context(), collections.Query{})
	_, _ = s.List(t.Context(), collections.Query{Limit: -1})
	_, _ = s.List(gone, collections.Query{})

	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	got := map[string]uint64{}
	for _, metric := range families[0].GetMetric() {
		got[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
	}
	if diff := cmp.Diff(map[string]uint64{"unreachable": 1, "refused": 1, "canceled": 1}, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", families[0].GetName(), diff)
	}
	if _, err := drivers.Open(t.Context(), "sqlite::memory:", collections.Options{Registerer: registry}); err == nil {
		t.Error("second store with the same metric name: error = nil, want one")
	}
}
