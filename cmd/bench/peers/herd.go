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
	herdTakes   = 50 * time.Millisecond
)

// A herdServer is one of those compared, with a node of its own.
type herdServer struct {
	name  string
	node  *busyNode
	crowd clients.Crowd

	mu    sync.Mutex
	waits []float64 // of the clients for a kind of keys, in round trips
	other int       // answers that the kind has no reason for, and connections that were lost
}

// herdKinds are what the node has of keys.
var herdKinds = []struct {
	name string
	kind kind
}{{"an answer", small}, {"no such validator", absent}, {"an error", broken}}

// Herd measures many clients who ask for the same at once.
func Herd(ctx context.Context, r *rig.Rig) {
	servers, keys := herdServers(ctx, r), rig.Sized(r, herdKeys, 2)
	var rows [][]string
	for _, k := range herdKinds {
		for i := range keys {
			for n := range servers { // another one begins with each key
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
	r.Note("p50, p99 and max are what clients wait, in round trips of the node (%v). Other statuses are answers that the kind has no reason for, and connections that were lost.", herdTakes)
}

// herdServers start each before a node of its own, which all stand before one chain.
func herdServers(ctx context.Context, r *rig.Rig) (all []*herdServer) {
	d := r.Chain(rig.Still)
	for _, name := range []string{tipcacheName, nginxName} {
		node := startBusyNode(r, d, herdTakes)
		node.bears = herdClients
		node.counted.Store(1)
		p := before(ctx, r, name, origin{node: node.url, comet: d.CometURL(), fresh: time.Minute})
		s := &herdServer{name: name, node: node, crowd: clients.NewCrowd(rig.Host(p.urls[plain]), herdClients)}
		r.OnStop(s.crowd.Close)
		all = append(all, s)
	}
	return all
}

// rush has all clients ask for a key at the same moment.
func (s *herdServer) rush(ctx context.Context, k kind, key int64) {
	rig.Check(s.crowd.Gather(ctx, smallPath))
	start := make(chan struct{})
	time.AfterFunc(10*time.Millisecond, func() { close(start) }) // all are at the line by then
	_ = s.crowd.All(func(m *clients.Conn) error {
		<-start
		a, err := m.Get(ctx, busyPath(k, key))
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil || (k == small) != (a.Status == http.StatusOK) || k != small && a.Status < http.StatusBadRequest {
			s.other++
		} else {
			s.waits = append(s.waits, float64(a.Took)/float64(herdTakes))
		}
		return nil
	})
	rig.Check(ctx.Err())
}

// row is what came of a kind of keys, which is forgotten.
func (s *herdServer) row(name string, k kind) []string {
	waits := func(q float64) float64 { return figures.Quantile(s.waits, q) }
	_, mean, most := s.node.reads(k)
	row := figures.Row(name, s.name, mean, most, waits(0.5), waits(0.99), waits(1), s.other)
	s.waits, s.other = nil, 0
	return row
}
