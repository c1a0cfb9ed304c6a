// Package limits says which clients may ask, and how often.
//
//   - client.go finds out whose a request is, by its address or its API key, and admits
//     those who have a key;
//   - limits.go has the limits in force, and says why not;
//   - limiter.go counts it, by the buckets (buckets.go) of this process and, where replicas
//     share their limits, those in Redis, and tells the client how it stands. Clients
//     that are served on, by streams, pay like clients that ask again;
//   - access.go has the rules for single operations;
//   - places.go has the places of requests that wait for a block, or hold a stream.
package limits

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/proxy/failure"
)

// A Rate is how often a client may ask: as fast as a bucket of Burst requests
// fills again at Requests per Per. The zero Rate is no limit.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int // at once
}

// window is the time in which an empty bucket is full again.
func (r Rate) window() time.Duration {
	return time.Duration(float64(r.Per) / float64(r.Requests) * float64(r.Burst))
}

// Limits say how often clients may ask. What exceeds one is refused.
type Limits struct {
	Key            Rate           // of all keys with one name together; a key's own rate goes before it
	Address        Rate           // of a client's IPv4 address or IPv6 /64
	TrustedProxies []netip.Prefix // whose X-Forwarded-For tells the client's address
	Access         []Rule         // the first one that matches applies
}

// Shared are the limits kept in Redis, which replicas have in common. The zero
// value keeps them in this process alone.
type Shared struct {
	Redis     redis.UniversalClient // asked only where there is a limit; wants ContextTimeoutEnabled. The caller closes it
	Timeout   time.Duration         // longest wait for it, after which this process decides alone; 0: as long as the request may take
	Namespace func() string         // that of the chain: services of different chains share no limits; nil = ""
}

// An Admission says which clients may ask, and how often. It is safe for concurrent use.
type Admission struct {
	Limits atomic.Pointer[Limits] // in force; may be replaced while serving, and is never nil

	keys    atomic.Pointer[[]Key] // the same
	local   *buckets
	shared  *sharedBuckets // nil: none
	counted *prometheus.CounterVec
}

// New admits no request by key until there are keys, and every request by address
// until there are limits.
func New(shared Shared, log *slog.Logger, metrics prometheus.Registerer) *Admission {
	a := &Admission{local: &buckets{seed: maphash.MakeSeed()}, counted: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_limits_total",
		Help: "Requests counted against a rate limit, by limit, by store (redis, or memory if this process decided alone) and by verdict.",
	}, []string{"limit", "store", "verdict"})}
	if shared.Redis != nil {
		a.shared = newSharedBuckets(shared, log)
	}
	a.Limits.Store(&Limits{})
	a.SetKeys(nil)
	return a
}

// SetKeys puts other keys in force, from the next request on.
func (a *Admission) SetKeys(keys []Key) {
	keys = slices.Clone(keys)
	a.keys.Store(&keys)
}

// SharesAddresses tells whether addresses are limited together with other
// replicas.
func (a *Admission) SharesAddresses() bool {
	return a.shared != nil && a.Limits.Load().Address != Rate{}
}

// AdmitAddress lets a request pass for as long as its client's address may ask,
// and says in headers of the answer how the client stands. Without a limit every
// request passes. The error is a *failure.Failure.
func (a *Admission) AdmitAddress(ctx context.Context, client netip.Addr, answer http.Header) error {
	return a.admit(ctx, limit{ownerOf(client), a.Limits.Load().Address}, 1, answer)
}

// admit spends n requests of one limit.
func (a *Admission) admit(ctx context.Context, l limit, n int, answer http.Header) error {
	if l.Rate == (Rate{}) {
		return nil
	}
	s := Standing{l.kind, l.Rate, a.spend(ctx, l, n)}
	answer.Add(StandingHeader, string(s.AppendText(nil)))
	answer.Add(PolicyHeader, string(s.AppendPolicy(nil)))
	if s.allowed {
		return nil
	}
	return &failure.Failure{
		Status: http.StatusTooManyRequests, Expected: true, RetryAfter: s.retry, Err: errors.New("rate limit of " + l.kind + " " + l.String()),
		Public: fmt.Sprintf("too many requests: the limit of this %s is %d in %v", l.kind, l.Requests, l.Per),
	}
}

// AdmitMore counts n requests more, of a client whose request was admitted as one and
// stands for as many besides. limited says that there is a limit. The error is a
// *failure.Failure, 400 where no bucket ever has so many.
func (a *Admission) AdmitMore(ctx context.Context, c *Client, n int, answer http.Header) (limited bool, err error) {
	for _, l := range a.limitsOf(c) {
		if n >= l.Burst {
			return true, &failure.Failure{
				Status: http.StatusBadRequest, Expected: true, Public: fmt.Sprintf("%d answers at once are more than the limit of this %s, which is %d at once", n+1, l.kind, l.Burst),
			}
		}
		if !limited {
			answer.Del(StandingHeader)
			answer.Del(PolicyHeader)
		}
		limited = true
		if err := a.admit(ctx, l, n, answer); err != nil {
			return true, err
		}
	}
	return limited, nil
}

// WouldAdmit tells whether a request that is repeated would pass, and counts
// nothing. Limits kept in Redis are none to be asked in passing: they take longer
// than net/http.
func (a *Admission) WouldAdmit(c *Client, now time.Time) bool {
	for _, l := range a.limitsOf(c) {
		if a.shared != nil || a.local.wait(l, now) > 0 {
			return false
		}
	}
	return true
}

// AdmitRepeated counts in this process alone a request that WouldAdmit has let pass, and notes in s
// how its client stands. It refuses only where other requests were faster; the request comes again to
// spend then, which counts it.
func (a *Admission) AdmitRepeated(s *Standings, c *Client, now time.Time) (ok bool) {
	for i, l := range a.limitsOf(c) {
		s[i] = Standing{l.kind, l.Rate, a.local.spend(l, 1, now)}
		if !s[i].allowed {
			return false
		}
		a.count(l.kind, "memory", true)
	}
	return true
}

// A limit is the rate of one owner.
type limit struct {
	owner
	Rate
}

// limitsOf are the limits in force for a client, that of its address at 0 and that of its key at 1.
func (a *Admission) limitsOf(c *Client) iter.Seq2[int, limit] {
	return func(yield func(int, limit) bool) {
		if r := a.Limits.Load().Address; r != (Rate{}) && !yield(0, limit{ownerOf(c.Address), r}) {
			return
		}
		if c.Key.Name == "" {
			return
		}
		if r := a.rateOf(c.Key); r != (Rate{}) {
			yield(1, limit{c.Key.owner(), r})
		}
	}
}
