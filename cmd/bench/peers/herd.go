package peers

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

const (
	herdClients = 500
	herdKeys    = 20 // of each kind
	herdLatency = 50 * time.Millisecond
)

// A herdServer is a server under comparison and its node.
type herdServer struct {
	name  string
	node  *busyNode
	crowd clients.Crowd

	mu    sync.Mutex
	waits []float64 // wait of each client, in round trips of the node
	other int       // answers with another status than the kind's, and lost connections
}

// herdKinds are the kinds of keys that clients request.
var herdKinds = []struct {
	name string
	kind kind
}{{"an answer", small}, {"an error", broken}}

// Herd measures many clients that request the same key at the same moment.
func Herd(ctx context.Context, r *rig.Rig) {
	servers, keys := herdServers(ctx, r), rig.Sized(r, herdKeys, 2)
	var rows [][]string
	for _, k := range herdKinds {
		for i := range keys {
			for n := range servers { // each key begins with another server
				servers[(i+n)%len(servers)].rush(ctx, k.kind, int64(i))
			}
		}
		r.Progress("herd: %s", k.name)
		for _, s := range servers {
			rows = append(rows, s.row(k.name, k.kind))
		}
	}
	r.Table(fmt.Sprintf("herd: %d clients at once on a cold key, %d keys of each kind", herdClients, keys),
		[]string{"the node has", "server", "node requests per key", "most", "p50", "p99", "max", "other statuses"}, rows)
	r.Note("p50, p99 and max are the waits of clients, in round trips of the node (%v). Other statuses include lost connections.", herdLatency)
}

// herdServers starts the servers, each with its own busy node. All nodes have the same chain.
func herdServers(ctx context.Context, r *rig.Rig) (all []*herdServer) {
	d := r.Chain(rig.Still)
	for _, name := range []string{tipcacheName, nginxName} {
		node := startBusyNode(r, d, herdLatency)
		node.capacity = herdClients
		node.counted.Store(1)
		p := before(ctx, r, name, origin{node: node.url, comet: d.CometURL(), fresh: time.Minute})
		s := &herdServer{name: name, node: node, crowd: clients.NewCrowd(rig.Host(p.urls[plain]), herdClients)}
		r.OnStop(s.crowd.Close)
		all = append(all, s)
	}
	return all
}

// rush makes all clients request a key at the same moment.
func (s *herdServer) rush(ctx context.Context, k kind, key int64) {
	rig.Check(s.crowd.Open(ctx))
	start := make(chan struct{})
	time.AfterFunc(10*time.Millisecond, func() { close(start) }) // all clients wait for start by then
	_ = s.crowd.All(func(m *clients.Conn) error {
		<-start
		a, err := m.Get(ctx, busyPath(k, key))
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil || (k == small) != (a.Status == http.StatusOK) || k != small && a.Status < http.StatusBadRequest {
			s.other++
		} else {
			s.waits = append(s.waits, float64(a.Took)/float64(herdLatency))
		}
		return nil
	})
	rig.Check(ctx.Err())
}

// row returns the figures of a kind of keys and resets them.
func (s *herdServer) row(name string, k kind) []string {
	waits := func(q float64) float64 { return figures.Quantile(s.waits, q) }
	keys, mean, most := s.node.reads(k)
	if keys == 0 || len(s.waits) == 0 {
		rig.Check(fmt.Errorf("%s: %s: %d keys read for %d responses", s.name, name, keys, len(s.waits)))
	}
	row := figures.Row(name, s.name, mean, most, waits(0.5), waits(0.99), waits(1), s.other)
	s.waits, s.other = nil, 0
	return row
}
