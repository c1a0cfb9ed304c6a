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

// A replica is one that a load balancer knows.
type replica struct {
	*rig.Replica
	addrs []string    // of its public listener; the second is behind a link
	rpc   string      // address of its RPC, where the setup has APIs
	grpc  string      // likewise
	ready atomic.Bool // takes requests, as far as the balancer knows

	mu    sync.Mutex
	downs []span // when it was killed or stopped, until it was back
}

// A span is from one moment to another, or begins and has not ended.
type span struct {
	from, to time.Time
	stopped  bool // by SIGSTOP: what it was asked meanwhile may also fail once it goes on
}

// noticed is how long a replica that was told to end still takes requests: ten
// times the pause between two looks of the load balancer.
const noticed = time.Second

// watch keeps ready true to the replica, as a load balancer's health check does.
func (r *replica) watch(ctx context.Context) {
	for rig.Pause(ctx, noticed/10) {
		asking, cancel := context.WithTimeout(ctx, noticed)
		_, err := rig.Get(asking, r.Admin+"/readyz")
		cancel()
		r.ready.Store(err == nil)
	}
}

// kill ends the replica without a goodbye.
func (r *replica) kill() {
	r.down(false)
	r.ready.Store(false)
	r.Kill()
}

// down notes that the replica is away from now on, until up.
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

// revive starts a replica that was killed. It is back when a path of its admin listener
// answers.
func (r *replica) revive(ctx context.Context, path string) {
	r.Restart(ctx)
	r.Process.Ready(ctx, rig.Answers(r.Admin+path))
	r.up()
}

// lost reports whether a request may fail: without an answer where its replica was killed
// meanwhile or the client is behind a link that may have failed, and in any way where its
// replica was stopped. An ingress may find no replica while one is away.
func (b *bed) lost(a *clients.Answer) bool {
	ingress := b.ingress != "" && a.Status == http.StatusBadGateway && a.Cache == ""
	return slices.ContainsFunc(b.replicas, func(r *replica) bool {
		behind := slices.Contains(r.addrs[1:], a.Server)
		own := slices.Contains(r.addrs, a.Server)
		return behind && a.Status == 0 || (own || ingress) && r.downDuring(a, ingress || a.Status == 0)
	})
}

// downDuring reports whether the replica was stopped meanwhile, or away in any way.
func (r *replica) downDuring(a *clients.Answer, inAnyWay bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.downs, func(s span) bool {
		return (s.stopped || inAnyWay) && (a.Sent.Before(s.to) || a.Sent.Before(s.from.Add(noticed))) && a.Came().After(s.from)
	})
}
