package faults

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// A replica is a replica behind a load balancer.
type replica struct {
	*rig.Replica
	addrs []string    // of its public listener; the second address is behind a link
	rpc   string      // address of its RPC if the setup has APIs
	grpc  string      // address of its gRPC, likewise
	ready atomic.Bool // as the load balancer sees it

	mu    sync.Mutex
	downs []span // when it was killed or stopped
}

// A span is a time interval. to is zero if it has not ended.
type span struct {
	from, to time.Time
	stopped  bool // by SIGSTOP, so requests may also fail after SIGCONT
}

// noticed is how long a draining replica still accepts requests: ten intervals of the load balancer's health check.
const noticed = time.Second

// watch updates ready like a load balancer's health check.
func (r *replica) watch(ctx context.Context) {
	for rig.Pause(ctx, noticed/10) {
		asking, cancel := context.WithTimeout(ctx, noticed)
		_, err := rig.Get(asking, r.Admin+"/readyz")
		cancel()
		r.ready.Store(err == nil)
	}
}

// Kill ends the replica by SIGKILL.
func (r *replica) Kill() {
	r.down(false)
	r.ready.Store(false)
	r.Process.Kill()
}

// Ready waits until a restarted replica is alive.
func (r *replica) Ready(ctx context.Context) {
	r.Process.Ready(ctx, rig.Answers(r.Admin+"/healthz"))
	r.up()
}

// down records that the replica is away until up.
func (r *replica) down(stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.downs = append(r.downs, span{from: time.Now(), stopped: stopped})
}

func (r *replica) up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.downs[len(r.downs)-1].to = time.Now()
}

// lost reports whether a request may fail. It may get no response if its replica was killed or its client is behind a
// link, and may fail in any way if its replica was stopped. An ingress may find no replica while one is away.
func (b *bed) lost(a *clients.Answer) bool {
	ingress := b.ingress != "" && a.Status == http.StatusBadGateway && a.Cache == ""
	return slices.ContainsFunc(b.replicas, func(r *replica) bool {
		behind := slices.Contains(r.addrs[1:], a.Server)
		own := slices.Contains(r.addrs, a.Server)
		return behind && a.Status == 0 || (own || ingress) && r.downDuring(a, ingress || a.Status == 0)
	})
}

// downDuring reports whether the replica was stopped during a request, or with inAnyWay also killed.
func (r *replica) downDuring(a *clients.Answer, inAnyWay bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.downs, func(s span) bool {
		return (s.stopped || inAnyWay) && (a.Sent.Before(s.to) || a.Sent.Before(s.from.Add(noticed))) && a.Came().After(s.from)
	})
}
