package metadata_test

import (
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
)

func BenchmarkLookupOfTwentyCached(b *testing.B) {
	s := openAlchemy(b, &alchemy{}, metadata.Options{Chain: "story-mainnet"})
	page := addresses(20)
	s.Lookup(b.Context(), page)
	s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, degraded := s.Lookup(b.Context(), page); degraded {
			b.Fatal("not cached")
		}
	}
}
