// Package limits says which clients may ask, and how often.
//
//   - address.go admits a request by its client's address, and keys.go by its API
//     key; limits.go has the limits in force, and says why not;
//   - limiter.go counts it: in this process (buckets.go), and in Redis where
//     replicas share their limits (shared.go);
//   - events.go has clients that are served on, by streams, pay like clients that ask again;
//   - standing.go tells the client how it stands;
//   - places.go has the places of requests that wait for a block, or bring a body.
package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
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
}

// Shared are the limits kept in Redis, which replicas have in common. The zero
// value keeps them in this process alone.
type Shared struct {
	Redis     redis.UniversalClient // asked only where there is a limit; wants ContextTimeoutEnabled. The caller closes it
	Timeout   time.Duration         // longest wait for it, after which this process decides alone; 0: as long as the request may take
	Namespace func() string         // that of the chain: services of different chains share no limits; nil = ""
}

// A Client is the address and the key that a request is counted by.
type Client struct {
	Address netip.Addr // not valid where the connection has none
	Key     Key        // of no name where none is required
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
	a := &Admission{local: newBuckets(), shared: newSharedBuckets(shared, log), counted: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_limits_total",
		Help: "Requests counted against a rate limit, by limit, by the store that decided (memory: this process alone) and by verdict.",
	}, []string{"limit", "store", "verdict"})}
	a.Limits.Store(&Limits{})
	a.SetKeys(nil)
	return a
}

// SharesAddresses tells whether addresses are limited together with other
// replicas.
func (a *Admission) SharesAddresses() bool {
	return a.shared != nil && a.Limits.Load().Address != Rate{}
}

// admit spends n requests of one limit.
func (a *Admission) admit(ctx context.Context, who owner, rate Rate, n int, answer http.Header) error {
	s := Standing{who.kind, rate, a.spend(ctx, who, rate, n)}
	answer.Add(StandingHeader, string(s.AppendText(nil)))
	answer.Add(PolicyHeader, string(s.AppendPolicy(nil)))
	if s.allowed {
		return nil
	}
	return &failure.Failure{
		Status: http.StatusTooManyRequests, Expected: true, RetryAfter: s.retry, Err: errors.New("rate limit of " + who.kind + " " + who.String()),
		Public: fmt.Sprintf("too many requests: the limit of this %s is %d in %v", who.kind, rate.Requests, rate.Per),
	}
}

// AdmitMore counts n requests more, of a client whose request was admitted as one and
// stands for as many besides. limited says that there is a limit. The error is a
// *failure.Failure, 400 where no bucket ever has so many.
func (a *Admission) AdmitMore(ctx context.Context, c *Client, n int, answer http.Header) (limited bool, err error) {
	address, key := a.ratesOf(c)
	of := [...]struct {
		owner
		Rate
	}{{ownerOf(c.Address), address}, {c.Key.owner(), key}}
	for _, l := range of {
		if l.Rate == (Rate{}) {
			continue
		}
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
		if err := a.admit(ctx, l.owner, l.Rate, n, answer); err != nil {
			return true, err
		}
	}
	return limited, nil
}

// WouldAdmit tells whether a request that is repeated would pass, and counts
// nothing. Limits kept in Redis are none to be asked in passing: they take longer
// than net/http.
func (a *Admission) WouldAdmit(c *Client, now time.Time) bool {
	address, key := a.ratesOf(c)
	if address == (Rate{}) && key == (Rate{}) {
		return true
	}
	return a.shared == nil &&
		(address == Rate{} || a.local.has(ownerOf(c.Address), address, now)) &&
		(key == Rate{} || a.local.has(c.Key.owner(), key, now))
}

// AdmitRepeated counts a request that WouldAdmit has let pass, and notes in s how its
// client stands. It refuses only where other requests were faster.
func (a *Admission) AdmitRepeated(s *Standings, c *Client, now time.Time) (ok bool) {
	address, key := a.ratesOf(c)
	if address != (Rate{}) {
		if s.Address = a.repeated(ownerOf(c.Address), address, now); !s.Address.allowed {
			return false
		}
	}
	if key != (Rate{}) {
		s.Key = a.repeated(c.Key.owner(), key, now)
		return s.Key.allowed
	}
	return true
}

// ratesOf are the limits in force for a client.
func (a *Admission) ratesOf(c *Client) (address, key Rate) {
	if c.Key.Name != "" {
		key = a.rateOf(c.Key)
	}
	return a.Limits.Load().Address, key
}
