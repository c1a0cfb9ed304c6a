package proxy

import (
	"log/slog"
	"time"
)

// withDefaults fills in what was left zero.
func (o Options) withDefaults() Options {
	orDefault(&o.Shape, Documented)
	orDefault(&o.MaxPageLimit, 100_000)
	orDefault(&o.MaxURL, 8<<10)
	orDefault(&o.MaxHeader, 16<<10)
	orDefault(&o.RequestTimeout, 15*time.Second)
	orDefault(&o.MinHeightWait, 10*time.Second)
	if len(o.CORSOrigins) == 0 {
		o.CORSOrigins = []string{anyOrigin}
	}
	orDefault(&o.Logger, slog.New(slog.DiscardHandler))
	orDefault(&o.SharedLimits.Timeout, 100*time.Millisecond)
	return o
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
