package proxy

import (
	"log/slog"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// withDefaults fills in what was left zero.
func (o Options) withDefaults() Options {
	orDefault(&o.Shape, Documented)
	orDefault(&o.MaxPageLimit, 100_000)
	orDefault(&o.MaxURL, 8<<10)
	orDefault(&o.MaxHeader, 16<<10)
	orDefault(&o.RequestTimeout, 15*time.Second)
	orDefault(&o.MinHeightWait, 10*time.Second)
	orDefault(&o.Logger, slog.New(slog.DiscardHandler))
	orDefault(&o.Classes.Negative, 3*time.Second)
	orDefault(&o.Classes.Live, cache.Policy{
		StaleBlocks: 2, ErrorBlocks: 300,
		Fresh: 2 * time.Second, Stale: 10 * time.Second, StaleIfError: 10 * time.Minute, Keep: 15 * time.Minute,
	})
	orDefault(&o.Classes.Params, cache.Policy{
		FreshBlocks: 30, StaleBlocks: 150, ErrorBlocks: 50_000,
		Fresh: time.Minute, Stale: 5 * time.Minute, StaleIfError: 24 * time.Hour, Keep: 25 * time.Hour,
	})
	orDefault(&o.Classes.Pinned, cache.Policy{Immutable: true, Keep: 24 * time.Hour})
	return o
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
