// Package limits admits clients by API keys, rates and access rules.
//
//   - client.go finds the client of a request by its address, and keys.go by its API key;
//   - limits.go has the current limits, and refuses requests that exceed them;
//   - limiter.go counts requests in the buckets (buckets.go) of this process and, if replicas share their limits, of
//     Redis, and reports the state of the limits to the client. An event of a stream counts as a request;
//   - rules.go has the access rules for single operations;
//   - places.go bounds the number of concurrent requests of one kind, such as waits for a block.
package limits

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/proxy/failure"
)

// A Rate is a token bucket of Burst requests that refills at Requests per Per. The zero Rate means no limit.
type Rate struct {
	Requests int
	Per      time.Duration
	Burst    int // at once
}

// text returns the rate as in messages: 2 in 1s, or 2 in 1s, at most 5 at once.
func (r Rate) text() string {
	text := fmt.Sprintf("%d in %v", r.Requests, r.Per)
	if r.Burst != r.Requests {
		text += fmt.Sprintf(", at most %d at once", r.Burst)
	}
	return text
}

// until returns the time in which a bucket that has some tokens fills up to wanted ones.
func (r Rate) until(wanted int, tokens float64) time.Duration {
	return time.Duration(math.Ceil(max(0, float64(wanted)-tokens) * float64(r.Per) / float64(r.Requests)))
}

// window returns the time in which an empty bucket refills.
func (r Rate) window() time.Duration { return r.until(r.Burst, 0) }

// Limits are the configured limits.
type Limits struct {
	Key            Rate           // for all keys with one name together, unless a key has a rate
	Address        Rate           // per IPv4 address or IPv6 /64
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For names the client
	Access         []Rule         // the first one that matches applies
}

// Shared configures limits in Redis, which replicas share. The zero value keeps limits in this process.
type Shared struct {
	Redis     Buckets
	Timeout   time.Duration // timeout after which this process decides alone; 0 means a minute
	Namespace func() string // separates the limits of different chains; nil means ""
}

// Buckets are token buckets that replicas share; redis.Buckets implements it. The interface names no type of a client
// library: each package that imports this one would compile that type's methods again.
type Buckets interface {
	// Take takes as many requests as a bucket has, up to most. With a least above 1, it takes least or none. The bucket
	// holds burst requests, and is refilled with the given number of requests per period. taken is 0 if the bucket has too
	// few, which are there after retry. After reset the bucket is full.
	Take(ctx context.Context, key string, requests int, period time.Duration, burst, least, most int) (taken, remaining int, reset, retry time.Duration, err error)
}

// An Admission admits requests by their clients. It is safe for concurrent use.
type Admission struct {
	Limits atomic.Pointer[Limits] // current limits; may be replaced while serving, and is never nil

	keys    atomic.Pointer[[]Key] // likewise
	turns   atomic.Uint32         // number of requests by keys with a rate of their own, for NextTurn
	local   *buckets
	shared  *sharedBuckets // nil without Redis
	counted *prometheus.CounterVec
}

// New returns an Admission without keys and limits.
func New(shared Shared, log *slog.Logger, metrics prometheus.Registerer) *Admission {
	a := &Admission{local: &buckets{seed: maphash.MakeSeed()}, counted: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_limits_total",
		Help: "Decisions of rate limits, and denials by access rules (limit \"rule\"), by limit, by store (shared, or memory if this process decided alone) and by verdict.",
	}, []string{"limit", "store", "verdict"})}
	if shared.Redis != nil {
		a.shared = newSharedBuckets(shared, log)
	}
	a.Limits.Store(&Limits{})
	a.SetKeys(nil)
	return a
}

// SetKeys replaces the API keys. The next request is judged by the new ones.
func (a *Admission) SetKeys(keys []Key) {
	keys = slices.Clone(keys)
	a.keys.Store(&keys)
}

// SharesAddresses reports whether the limit of addresses is shared with other replicas.
func (a *Admission) SharesAddresses() bool {
	return a.shared != nil && a.Limits.Load().Address != Rate{}
}

// Admit admits a request within the limits of its client, and adds their states to answer. The error is a *failure.Failure.
func (a *Admission) Admit(ctx context.Context, c *Client, answer http.Header) error {
	for _, l := range a.limitsOf(c) {
		if err := a.admit(ctx, l, 1, answer); err != nil {
			return err
		}
	}
	return nil
}

// admit spends n requests of one limit.
func (a *Admission) admit(ctx context.Context, l limit, n int, answer http.Header) error {
	if l.Rate == (Rate{}) {
		return nil
	}
	s := Status{l.kind, l.Rate, a.spend(ctx, l, n)}
	answer.Add(StatusHeader, string(s.AppendText(nil)))
	answer.Add(PolicyHeader, string(s.AppendPolicy(nil)))
	if s.allowed {
		return nil
	}
	return &failure.Failure{
		Status: http.StatusTooManyRequests, Expected: true, RetryAfter: s.retry, Err: errors.New("rate limit of " + l.kind + " " + l.String()),
		Public: fmt.Sprintf("too many requests: the limit of this %s is %s", l.kind, l.text()),
	}
}

// AdmitMore counts n more requests for a request that was admitted as one. limited reports whether this client or another one
// has a limit, for which the same request counts so. The error is a *failure.Failure, with the status tooMany if n+1 exceeds
// the burst of a limit.
func (a *Admission) AdmitMore(ctx context.Context, c *Client, n, tooMany int, answer http.Header) (limited bool, err error) {
	if n == 0 {
		return false, nil
	}
	first := true
	for _, l := range a.limitsOf(c) {
		if n >= l.Burst {
			return true, &failure.Failure{
				Status: tooMany, Expected: true, Public: fmt.Sprintf("this request counts as %d requests, and the limit of this %s never admits more than %d at once", n+1, l.kind, l.Burst),
			}
		}
		if first {
			answer.Del(StatusHeader)
			answer.Del(PolicyHeader)
		}
		first = false
		if err := a.admit(ctx, l, n, answer); err != nil {
			return true, err
		}
	}
	return a.hasLimits(c.Key.Name != ""), nil
}

// hasLimits reports whether any client of a route has a limit. The rate of all keys applies only if the route is keyed.
func (a *Admission) hasLimits(keyed bool) bool {
	l := a.Limits.Load()
	return l.Address != Rate{} || keyed && l.Key != Rate{} || slices.ContainsFunc(*a.keys.Load(), func(k Key) bool { return k.Rate != Rate{} })
}

// WouldAdmit reports whether a repeated request would be admitted. It counts nothing. It returns false if the client has a
// limit and limits are in Redis: a round trip costs more than the fast lane saves.
func (a *Admission) WouldAdmit(c *Client, now time.Time) bool {
	for _, l := range a.limitsOf(c) {
		if a.shared != nil || a.local.wait(l, now) > 0 {
			return false
		}
	}
	return true
}

// AdmitRepeated counts a request in this process, after WouldAdmit, and sets s to the state of its limits. It returns false if
// other requests took the rest meanwhile. The request's handler then counts it, a second time if one limit had room and another
// had not.
func (a *Admission) AdmitRepeated(s *Statuses, c *Client, now time.Time) (ok bool) {
	for i, l := range a.limitsOf(c) {
		s[i] = Status{l.kind, l.Rate, a.local.spend(l, 1, now)}
		if !s[i].allowed {
			return false
		}
		a.count(l.kind, "memory", true, 1)
	}
	return true
}

type limit struct {
	owner
	Rate
}

// limitsOf returns the limits of a client: of its address with index 0, and of its key with index 1. The rate of a
// [Admission.KeyWithRate] replaces that of the address.
func (a *Admission) limitsOf(c *Client) iter.Seq2[int, limit] {
	return func(yield func(int, limit) bool) {
		if r := a.Limits.Load().Address; r != (Rate{}) && c.Key.Rate == (Rate{}) && !yield(0, limit{ownerOf(c.Address), r}) {
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
