package web

import (
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
)

// standings are what the limits in force say to a request that is answered
// again.
type standings struct {
	headers      *headers
	address, key standing
}

type standing struct {
	rate     Rate // zero: no limit
	decision decision
}

// add collects the headers that tell of them.
func (s *standings) add() {
	for _, name := range [...]string{"Ratelimit", "Ratelimit-Policy"} {
		s.address.add(s.headers, name, "address")
		s.key.add(s.headers, name, "key")
	}
}

func (s *standing) add(h *headers, name, kind string) {
	switch {
	case s.rate == Rate{}:
	case name == "Ratelimit":
		h.set(name, s.decision.standing(kind))
	default:
		h.set(name, s.rate.policy(kind))
	}
}

// wouldAdmit tells whether the limits would let a request pass that is answered
// again. Limits kept in Redis are none to be asked in passing: they take longer
// than net/http.
func (a *Admission) wouldAdmit(r *repetition, hit *lane.Hit) bool {
	address, key := a.limitsOf(r)
	if address == (Rate{}) && key == (Rate{}) {
		return true
	}
	local := a.limiter.local
	return a.limiter.shared == nil &&
		(address == Rate{} || local.has(a.addressOf(r, hit), address, hit.Start)) &&
		(key == Rate{} || local.has("key:"+r.key.Name, key, hit.Start))
}

// admitAgain spends the request. It says no only if others were faster.
func (a *Admission) admitAgain(r *repetition, hit *lane.Hit, told *standings) bool {
	told.address.rate, told.key.rate = a.limitsOf(r)
	return (told.address.rate == Rate{} || a.spendAgain(a.addressOf(r, hit), "address", &told.address, hit.Start)) &&
		(told.key.rate == Rate{} || a.spendAgain("key:"+r.key.Name, "key", &told.key, hit.Start))
}

func (a *Admission) spendAgain(who, kind string, s *standing, now time.Time) bool {
	s.decision = a.limiter.local.spend(who, s.rate, now)
	if s.decision.allowed {
		a.limiter.metrics.limit(kind, "memory", true) // net/http's handler counts the others
	}
	return s.decision.allowed
}

// limitsOf are the limits in force for a request.
func (a *Admission) limitsOf(r *repetition) (address, key Rate) {
	limits := a.limits.Load()
	if r.keyed {
		key = a.rateOf(r.key)
	}
	return limits.Address, key
}

func (a *Admission) addressOf(r *repetition, hit *lane.Hit) string {
	return "address:" + networkOf(a.clientAgain(r, hit))
}
