package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/proxy/lane"
)

// A Rate is how often somebody may ask: as fast as a bucket of Burst requests
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

// Limits say how often clients may ask. What exceeds one is answered with 429.
type Limits struct {
	Key            Rate           // of those who share a key's name; a key's own rate goes before it
	Address        Rate           // of a client's IPv4 address or IPv6 /64
	TrustedProxies []netip.Prefix // whose X-Forwarded-For tells the client's address
}

// SharedLimits are the limits kept in Redis, which replicas have in common.
// The zero value keeps them in this process alone.
type SharedLimits struct {
	Redis     redis.UniversalClient // asked only where there is a limit; wants ContextTimeoutEnabled. The caller closes it
	Timeout   time.Duration         // longest wait for it, after which this process decides alone; default 100 ms
	Namespace func() string         // that of the chain: services of different chains share no limits; nil = ""
}

// An Admission says who may ask, and how often.
type Admission struct {
	limiter *limiter
	lane    *lane.Lane // which remembers what was answered by what can be replaced; nil: none

	// What can be replaced while serving, read without a lock.
	limits atomic.Pointer[Limits]
	keys   *keyring
}

func newAdmission(o Options, m *metrics) *Admission {
	a := &Admission{limiter: &limiter{newBuckets(), newSharedBuckets(o.SharedLimits, o.Logger), m}, lane: o.Lane, keys: newKeyring(o.Keys)}
	a.SetLimits(o.Limits)
	return a
}

// Forget empties the fast lane.
func (a *Admission) Forget() {
	if a.lane != nil {
		a.lane.Forget()
	}
}

// SetLimits puts other limits in force, from the next request on.
func (a *Admission) SetLimits(l Limits) {
	a.limits.Store(&l)
	a.Forget()
}

// A decision is what a limit says to one request.
type decision struct {
	allowed   bool
	remaining int           // requests that may follow at once
	reset     time.Duration // until as many as ever may follow
	retry     time.Duration // until the next may, if this one may not
}

// standing and policy say so to the client (draft-ietf-httpapi-ratelimit-headers).
func (v decision) standing(kind string) string {
	return `"` + kind + `";r=` + strconv.Itoa(v.remaining) + `;t=` + wholeSeconds(v.reset)
}

func (r Rate) policy(kind string) string {
	return `"` + kind + `";q=` + strconv.Itoa(r.Burst) + `;w=` + wholeSeconds(max(r.window(), time.Second))
}

// limiter counts requests: each process by itself, and together in Redis.
type limiter struct {
	local   *buckets
	shared  *sharedBuckets // nil: none
	metrics *metrics
}

// spend takes one request from who. This process is asked first: what exceeds a
// limit here exceeds it everywhere, so that a flood does not reach Redis. Where
// Redis does not answer, this process has decided.
func (l *limiter) spend(ctx context.Context, kind, who string, rate Rate) decision {
	v, store := l.local.spend(kind+":"+who, rate, time.Now()), "memory"
	if v.allowed && l.shared != nil {
		if told, err := l.shared.spend(ctx, kind+":"+who, rate); err == nil {
			v, store = told, "shared"
		}
	}
	l.metrics.limit(kind, store, v.allowed)
	return v
}

// admitAddress lets a request pass for as long as its client's address may ask.
func (a *Admission) admitAddress(c *gin.Context) error {
	limits := a.limits.Load()
	if limits.Address == (Rate{}) {
		return nil
	}
	return a.admitBy(c, "address", a.ClientNetwork(c.Request), limits.Address)
}

// Trusts tells whether an address is that of a trusted proxy.
func (a *Admission) Trusts(addr netip.Addr) bool {
	return isAmong(a.limits.Load().TrustedProxies, addr)
}

// Client names who asks, for those who let clients take turns: the name on the
// request's key, or else its address, of which an IPv6 /64 counts as one.
func (a *Admission) Client(r *http.Request, rec *Record) string {
	if rec.tenant != "" {
		return "key " + rec.tenant
	}
	return networkOf(a.clientOf(r))
}

// admitTenant lets a request pass for as long as the name on its key may ask.
func (a *Admission) admitTenant(c *gin.Context, key Key) error {
	rate := a.rateOf(key)
	if rate == (Rate{}) {
		return nil
	}
	return a.admitBy(c, "key", key.Name, rate)
}

func (a *Admission) rateOf(key Key) Rate {
	if key.Rate != (Rate{}) {
		return key.Rate
	}
	return a.limits.Load().Key
}

// admitBy spends a request of one limit and tells the client how it stands.
func (a *Admission) admitBy(c *gin.Context, kind, who string, rate Rate) error {
	v := a.limiter.spend(c.Request.Context(), kind, who, rate)
	h := c.Writer.Header()
	h.Add("Ratelimit", v.standing(kind))
	h.Add("Ratelimit-Policy", rate.policy(kind))
	if v.allowed {
		return nil
	}
	return &Failure{
		Status: http.StatusTooManyRequests, RetryAfter: v.retry, Err: errors.New("rate limit of " + kind + " " + who),
		Public: fmt.Sprintf("too many requests: the limit of this %s is %d in %v", kind, rate.Requests, rate.Per),
	}
}

// wholeSeconds rounds up: what is told is never too early.
func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
