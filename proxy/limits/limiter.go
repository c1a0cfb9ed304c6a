package limits

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A decision is what a limit says to one request.
type decision struct {
	allowed   bool
	remaining int           // requests that may follow at once
	reset     time.Duration // until as many as ever may follow
	retry     time.Duration // until the next may, if this one may not
}

// limiter counts requests: each process by itself, and together in Redis.
type limiter struct {
	local   *buckets
	shared  *sharedBuckets // nil: none
	counted *prometheus.CounterVec
}

func newLimiter(shared Shared, log *slog.Logger, metrics prometheus.Registerer) *limiter {
	return &limiter{newBuckets(), newSharedBuckets(shared, log), promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_limits_total",
		Help: "Requests counted against a rate limit, by limit, by the store that decided (memory: this process alone) and by verdict.",
	}, []string{"limit", "store", "verdict"})}
}

// spend takes one request from who. This process is asked first: what exceeds a
// limit here exceeds it everywhere, so that a flood does not reach Redis. Where
// Redis does not answer, this process has decided.
func (l *limiter) spend(ctx context.Context, who owner, rate Rate) decision {
	d, store := l.local.spend(who, rate, time.Now()), "memory"
	if d.allowed && l.shared != nil {
		if told, err := l.shared.spend(ctx, who.kind+":"+who.String(), rate); err == nil {
			d, store = told, "shared"
		}
	}
	l.count(who.kind, store, d.allowed)
	return d
}

// repeated takes one from who in this process alone. What it refuses comes again
// to spend, which counts it.
func (l *limiter) repeated(who owner, rate Rate, now time.Time) Standing {
	s := Standing{who.kind, rate, l.local.spend(who, rate, now)}
	if s.allowed {
		l.count(who.kind, "memory", true)
	}
	return s
}

func (l *limiter) count(kind, store string, allowed bool) {
	verdict := "refused"
	if allowed {
		verdict = "allowed"
	}
	l.counted.WithLabelValues(kind, store, verdict).Inc()
}
