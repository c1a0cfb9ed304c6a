package collections_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestPagesAreMeasuredByResult(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := open(t, "postgres://user:secret@127.0.0.1:1/db?sslmode=disable", collections.Options{Registerer: registry})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = s.List(t.Context(), collections.Query{})
	_, _ = s.List(canceled, collections.Query{})

	want := map[string]float64{"unreachable": 1, "canceled": 1}
	expect.NoDiff(t, expect.Metrics(t, registry, "tipcache_collections_list_duration_seconds"), want, "pages by result")
}
