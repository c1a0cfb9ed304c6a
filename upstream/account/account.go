// Package account counts the memory outside the cache that clients and upstreams use: open streams, responses that
// clients have not read, request bodies, upstream bodies, answers of event streams, and requests remembered by the
// fast lane.
//
// account.go counts bytes against one limit. The cache shrinks to make room for them. part.go divides the account into
// parts in which each client has a share. body.go reads a body. reclaim.go closes connections and ends event streams when
// memory is short.
package account

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Kind is the purpose of reserved memory.
type Kind int

// The kinds.
const (
	Streams  Kind = iota // open streams of HTTP/2 and gRPC connections
	Unread               // responses that clients have not read
	Requests             // request bodies
	Upstream             // bodies of upstreams, while they are read, and data of execution clients until it is stored
	Events               // topics and answers of event streams and polls, subscriptions and unread events of WebSockets
	Lane                 // requests remembered by the fast lane
	kinds
)

// String returns the kind as a metric label.
func (k Kind) String() string {
	return [...]string{"streams", "unread", "requests", "upstream", "events", "lane"}[k]
}

// An Account counts reserved bytes. A nil Account has no limit. It is safe for concurrent use.
type Account struct {
	limit   int64
	used    atomic.Int64
	kinds   [kinds]atomic.Int64
	refused [kinds]prometheus.Counter
	follow  func(used int64)

	upstream, events *Part

	connections, followers reclaimer // close connections, and event streams with WebSockets
}

// New returns an account of limit bytes. A nil registerer registers no metrics.
func New(limit int64, r prometheus.Registerer) *Account {
	a := &Account{limit: limit, connections: newReclaimer(), followers: newReclaimer()}
	most := limit / 4 * 3
	a.upstream = a.Part(Upstream, most, most)
	a.events = a.Part(Events, limit/4, limit/16)
	f := promauto.With(r)
	f.NewGauge(prometheus.GaugeOpts{
		Name: "tipcache_memory_reserved_limit_bytes", Help: "Maximum of tipcache_memory_reserved_bytes, in bytes: half of cache.memory.",
	}).Set(float64(limit))
	refused := f.NewCounterVec(prometheus.CounterOpts{
		Name: "tipcache_memory_refused_total", Help: "Reservations refused because the memory for them is in use, by kind.",
	}, []string{"kind"})
	for k := range kinds {
		a.refused[k] = refused.WithLabelValues(k.String())
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "tipcache_memory_reserved_bytes",
			Help:        "Memory reserved within cache.memory for streams, events, requests of the fast lane, bodies and unread responses, in bytes, by kind.",
			ConstLabels: prometheus.Labels{"kind": k.String()},
		}, func() float64 { return float64(a.kinds[k].Load()) })
	}
	return a
}

// Follow calls f with the bytes in use after each change. It must be called before the account is used.
func (a *Account) Follow(f func(used int64)) { a.follow = f }

// Limit returns the maximum number of reserved bytes.
func (a *Account) Limit() int64 { return a.limit }

// Used returns the number of reserved bytes.
func (a *Account) Used() int64 { return a.used.Load() }

// IsShort reports whether more than a quarter of the bytes is in use, not counting the lane.
func (a *Account) IsShort() bool {
	return a != nil && a.Used()-a.kinds[Lane].Load() > a.limit/4
}

// limitOf returns how many bytes of all kinds may be reserved once kind k has reserved. An eighth remains for responses
// of upstreams, because cache misses need them. The lane, whose reservations last long, leaves half.
func (a *Account) limitOf(k Kind) int64 {
	switch k {
	case Upstream:
		return a.limit
	case Lane:
		return a.limit / 2
	default:
		return a.limit / 8 * 7
	}
}

// Reserve reserves n bytes. If that would exceed the limit, it reserves nothing and returns false.
func (a *Account) Reserve(k Kind, n int64) bool {
	if a == nil {
		return true
	}
	if a.used.Add(n) > a.limitOf(k) && n > 0 {
		a.used.Add(-n)
		a.countRefusal(k)
		if k == Streams || k == Unread || k == Events {
			a.connections.wake(n)
		}
		return false
	}
	a.changed(k, n)
	return true
}

// countRefusal counts a refusal in the metrics.
func (a *Account) countRefusal(k Kind) {
	if a != nil {
		a.refused[k].Inc()
	}
}

// Release releases n reserved bytes.
func (a *Account) Release(k Kind, n int64) {
	if a == nil {
		return
	}
	a.used.Add(-n)
	a.changed(k, -n)
}

func (a *Account) changed(k Kind, n int64) {
	a.kinds[k].Add(n)
	if a.follow != nil {
		a.follow(a.used.Load())
	}
}
