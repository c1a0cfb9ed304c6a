package collections_test

import (
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections"
)

// BenchmarkList reads pages of 20 of 10^5 collections.
func BenchmarkList(b *testing.B) {
	one := int64(1)
	for driver, url := range map[string]func(testing.TB) string{"sqlite": sqliteFile, "postgres": postgresURL} {
		b.Run(driver, func(b *testing.B) {
			s := open(b, url(b), collections.Options{})
			load(b, s, some(100_000))
			for name, q := range map[string]collections.Query{
				"updated":      {Desc: true},
				"many assets":  {Desc: true, MinAssets: &one},
				"assets, tied": {OrderBy: collections.AssetCount, Desc: true},
			} {
				for _, q.Offset = range []int{0, 10_000} {
					b.Run(fmt.Sprintf("%s/offset %d", name, q.Offset), func(b *testing.B) {
						for b.Loop() {
							if _, err := s.List(b.Context(), q); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		})
	}
}

// BenchmarkImport imports 10^5 new collections.
func BenchmarkImport(b *testing.B) {
	all := some(100_000)
	for driver, url := range map[string]func(testing.TB) string{"sqlite": sqliteFile, "postgres": postgresURL} {
		b.Run(driver, func(b *testing.B) {
			for b.Loop() {
				load(b, open(b, url(b), collections.Options{}), all)
			}
		})
	}
}
