package node

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// SetEndpoints replaces the nodes. It can be called while the pool is in use. Nodes with an unchanged configuration stay
// connected. A node whose address or headers changed serves requests with the previous ones until the new ones work. Requests in
// flight to a removed node continue for up to a minute, and its gRPC streams end. If an address is invalid, SetEndpoints changes
// nothing and returns an error.
func (p *Pool) SetEndpoints(configured []Endpoint) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	var added []*endpoint
	next, removed := make([]*endpoint, len(configured)), slices.Clone(p.endpoints())
	for i, one := range configured {
		if j := slices.IndexFunc(removed, func(e *endpoint) bool { return reflect.DeepEqual(e.configured, one) }); j >= 0 {
			next[i] = removed[j]
			removed = slices.Delete(removed, j, j+1)
		}
	}
	for i, one := range configured {
		if next[i] != nil {
			continue
		}
		e, err := p.build(one, next)
		if err != nil {
			for _, e := range added {
				e.close()
			}
			return fmt.Errorf("endpoint %d: %w", i+1, err)
		}
		next[i], added = e, append(added, e)
	}
	for _, e := range added {
		p.metrics.shed.WithLabelValues(e.name) // creates the series at zero, so that rates work
		p.metrics.reconnects.WithLabelValues(e.name)
		p.chain.Add(e.blocks)
	}
	removed = p.handOver(next, added, removed)
	p.members.Store(&next)
	for _, e := range removed {
		p.remove(e)
	}
	return nil
}

// remove stops following an endpoint and retires it.
func (p *Pool) remove(e *endpoint) {
	p.chain.Remove(e.blocks)
	e.end()
	p.retiring.Go(func() { p.retire(e) })
}

// retireTimeout is how long requests in flight to a removed node may take.
const retireTimeout = time.Minute

// retire closes the connections of a removed endpoint once its requests have ended.
func (p *Pool) retire(e *endpoint) {
	ctx, cancel := context.WithTimeout(p.life, retireTimeout)
	defer cancel()
	for upstream.Sleep(ctx, 100*time.Millisecond) == nil && (e.queue.Load().InFlight > 0 || e.sending.Load() > 0) { // a request may be about to begin
	}
	e.close()
	p.changing.Lock() // a new endpoint of this name has created its series
	defer p.changing.Unlock()
	if !slices.ContainsFunc(p.endpoints(), func(other *endpoint) bool { return other.name == e.name }) {
		p.metrics.forget(e.name)
	}
}

// build returns an endpoint with a name that differs from the others'.
func (p *Pool) build(configured Endpoint, others []*endpoint) (*endpoint, error) {
	o := p.options
	base, err := parseBase(configured.REST)
	if err != nil {
		return nil, fmt.Errorf("REST address: %w", err)
	}
	name := uniqueName(base.Host, others)
	e := &endpoint{configured: configured, name: name, timeout: o.Timeout, metrics: p.metrics, nextKeys: p.nextKeys, testing: make(chan struct{}, 1), added: time.Now()}
	e.client = newClient(base, configured.Headers, o, p.protocol)
	e.restServer = newServer(upstream.NewOutage(o.Logger, "node "+name), isNodeFailure)
	e.blocks = &heights.Node{
		Name: name, Reader: e, Logger: o.Logger.With("node", name),
		ReportsHeight: func() bool { return p.protocol.hasHeights },
		Follow:        func(ctx context.Context) { p.follow(ctx, e) },
	}
	if configured.Comet != "" {
		base, err := parseBase(configured.Comet)
		if err != nil {
			return nil, fmt.Errorf("CometBFT address: %w", err)
		}
		e.comet = comet.New(base, configured.Headers, o.Timeout, idleClose, o.Memory, upstream.NewOutage(o.Logger, "RPC of node "+name))
		e.blocks.Comet, e.rpcServer = e.comet, newServer(e.comet.Outage, isNodeFailure)
	}
	if configured.GRPC != "" {
		if e.grpc, err = newGRPCClient(name, configured, o); err != nil {
			return nil, fmt.Errorf("gRPC address: %w", err)
		}
		e.grpcServer = newServer(e.grpc.outage, isGRPCFailure)
	}
	e.queue = queue.New(queue.Options{Limit: o.InFlight, MaxWait: o.Queue, Headers: e.blocks.Headers})
	e.life, e.end = context.WithCancel(context.Background())
	return e, nil
}

// uniqueName returns the host with a suffix if another endpoint has this name, as with two paths on one host.
func uniqueName(host string, others []*endpoint) string {
	name := host
	for n := 2; ; n++ {
		taken := func(e *endpoint) bool { return e != nil && e.name == name }
		if !slices.ContainsFunc(others, taken) {
			return name
		}
		name = fmt.Sprintf("%s#%d", host, n)
	}
}
