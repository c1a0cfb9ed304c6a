// Package limits admits clients by API keys, rates and access rules.
//
//   - client.go finds the client of a request by its address, and keys.go by its API key;
//   - limits.go has the current limits, and refuses requests that exceed them;
//   - spend.go counts requests, and events of streams, in the buckets (buckets.go) of this process. shared.go settles the counts with
//     other replicas by Redis. status.go tells the client the state of its limits;
//   - access.go has the access rules for single operations;
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

// cost returns the time in which n requests are refilled.
func (r Rate) cost(n int) time.Duration { return time.Duration(r.refill(n)) }

// window returns the time in which an empty bucket refills. It is rounded up, so that Burst requests always fit.
func (r Rate) window() time.Duration { return time.Duration(math.Ceil(r.refill(r.Burst))) }

func (r Rate) refill(n int) (nanoseconds float64) {
	return min(float64(n)*float64(r.Per)/float64(r.Requests), math.MaxInt64/100) // some multiples are computed
}

// isSlow reports whether the rate is below one request per second.
func (r Rate) isSlow() bool { return float64(r.Requests) < r.Per.Seconds() }

// decide returns the decision about n requests by the time until the bucket is full: after the requests if they are
// allowed, else without them.
func (r Rate) decide(allowed bool, n int, untilFull time.Duration) decision {
	free := r.window() - untilFull
	return decision{
		allowed: allowed, remaining: int(float64(max(0, free)) * float64(r.Requests) / float64(r.Per)),
		reset: max(0, untilFull), retry: max(0, r.cost(n)-free),
	}
}

// Limits are the configured limits.
type Limits struct {
	Key            Rate           // for all keys with one name together, unless a key has a rate
	Address        Rate           // per IPv4 address or IPv6 /64
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For names the client
	Access         []Rule         // the first one that matches applies
}

// An Admission admits requests by their clients. It is safe for concurrent use.
type Admission struct {
	Limits atomic.Pointer[Limits] // current limits; may be replaced while serving, and is never nil

	keys    atomic.Pointer[[]Key] // likewise
	turns   atomic.Uint32         // number of requests by keys with a rate of their own, for NextTurn
	local   *buckets
	shared  *sharedBuckets // nil without Redis
	counted *prometheus.CounterVec
	allowed [ruleIndex + 1]prometheus.Counter // parts of counted: requests that memory has allowed, by the index of limitsOf
}

// New returns an Admission without keys and limits.
func New(shared Shared, log *slog.Logger, metrics prometheus.Registerer) *Admission {
	a := &Admission{local: &buckets{seed: maphash.MakeSeed()}, counted: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_proxy_limits_total",
		Help: "Decisions of rate limits, and denials by access rules (limit \"rule\"), by limit, by store (shared if Redis decided, as for rates below one request per second, else memory) and by verdict.",
	}, []string{"limit", "store", "verdict"})}
	for i, kind := range [...]string{"address", "key", "rule"} {
		a.allowed[i] = a.counted.WithLabelValues(kind, "memory", "allowed")
	}
	if shared.Redis != nil {
		a.shared = newSharedBuckets(shared, a.local, log)
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

// AsksRedis reports whether each request that a rate applies to asks Redis. Such requests are kept out of the fast lane: a
// round trip costs more than the lane saves.
func (a *Admission) AsksRedis(r Rate) bool { return a.shared != nil && r != Rate{} && r.isSlow() }

// Settle charges Redis for all requests that this process has admitted, so that other replicas know of them. Call it when no more
// requests arrive. It returns when that is done, when Redis fails, or when ctx ends.
func (a *Admission) Settle(ctx context.Context) {
	if a.shared != nil {
		a.shared.settleAll(ctx)
	}
}

// Admit admits a request within the limits of its client, and adds their states to answer. The error is a *failure.Failure.
func (a *Admission) Admit(ctx context.Context, c *Client, answer http.Header) error {
	for _, l := range a.limitsOf(c, Charge{}) {
		if err := a.admit(ctx, l, 1, answer); err != nil {
			return err
		}
	}
	return nil
}

// admit spends n requests of one limit. The state of the limit replaces an earlier one in answer.
func (a *Admission) admit(ctx context.Context, l limit, n int, answer http.Header) error {
	if l.Rate == (Rate{}) {
		return nil
	}
	s := Status{l.kind, l.Rate, a.spend(ctx, l, n)}
	state, policy := string(s.AppendText(nil)), string(s.AppendPolicy(nil))
	if i := slices.Index(answer[PolicyHeader], policy); i >= 0 {
		answer[StatusHeader][i] = state
	} else {
		answer.Add(StatusHeader, state)
		answer.Add(PolicyHeader, policy)
	}
	if s.allowed {
		return nil
	}
	return &failure.Failure{
		Status: http.StatusTooManyRequests, Expected: true, RetryAfter: s.retry, Err: errors.New("rate limit of " + l.kind + " " + l.String()),
		Public: fmt.Sprintf("too many requests: the limit of this %s is %s", l.kind, l.text()),
	}
}

// AdmitMore counts n more requests for a request that was admitted as one. The error is a *failure.Failure, with the status
// tooMany if n+1 exceeds the burst of a limit.
func (a *Admission) AdmitMore(ctx context.Context, c *Client, n, tooMany int, answer http.Header) error {
	if n == 0 {
		return nil
	}
	for _, l := range a.limitsOf(c, Charge{}) {
		if n >= l.Burst {
			return &failure.Failure{
				Status: tooMany, Expected: true, Public: fmt.Sprintf("this request counts as %d requests, and the limit of this %s never admits more than %d at once", n+1, l.kind, l.Burst),
			}
		}
		if err := a.admit(ctx, l, n, answer); err != nil {
			return err
		}
	}
	return nil
}

// A Charge is what a request counts as, in addition to one request against the limits of its client.
type Charge struct {
	More int   // requests against these limits
	Rule *Rule // against whose rate it also counts; nil for none
}

// requests returns the number of requests against the limit with an index of limitsOf.
func (c Charge) requests(index int) int {
	if index == ruleIndex {
		return 1
	}
	return 1 + c.More
}

// WouldAdmit reports whether a repeated request would be admitted. It counts nothing. It returns false if a limit asks Redis.
func (a *Admission) WouldAdmit(c *Client, charge Charge, now time.Time) bool {
	for i, l := range a.limitsOf(c, charge) {
		if a.AsksRedis(l.Rate) || a.local.wait(l, charge.requests(i), now) > 0 {
			return false
		}
	}
	return true
}

// AdmitRepeated counts a request in this process, after WouldAdmit, and sets s to the state of its limits. It returns false if
// other requests took the rest meanwhile. The request's handler then counts it, a second time if one limit had room and another
// had not.
func (a *Admission) AdmitRepeated(s *Statuses, c *Client, charge Charge, now time.Time) (ok bool) {
	for i, l := range a.limitsOf(c, charge) {
		n := charge.requests(i)
		s[i] = Status{l.kind, l.Rate, a.local.spend(l, n, now)}
		if !s[i].allowed {
			return false
		}
		a.allowed[i].Add(float64(n))
	}
	return true
}

type limit struct {
	owner
	Rate
}

// ruleIndex is the index of an access rule's limit.
const ruleIndex = 2

// limitsOf returns the limits of a client: of its address with index 0, of its key with index 1, and of the charge's rule with
// ruleIndex. The rate of a [Admission.KeyWithRate] replaces that of the address.
func (a *Admission) limitsOf(c *Client, charge Charge) iter.Seq2[int, limit] {
	return func(yield func(int, limit) bool) {
		if r := a.Limits.Load().Address; r != (Rate{}) && c.Key.Rate == (Rate{}) && !yield(0, limit{ownerOf(c.Address), r}) {
			return
		}
		if c.Key.Name != "" {
			if r := a.rateOf(c.Key); r != (Rate{}) && !yield(1, limit{c.Key.owner(), r}) {
				return
			}
		}
		if charge.Rule != nil {
			yield(ruleIndex, limit{charge.Rule.owner(c), charge.Rule.Rate})
		}
	}
}
