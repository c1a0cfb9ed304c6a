package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// A Pool is the nodes of one chain. Make it with New, have Run follow the
// heights, and Close it in the end. All methods may be called at any time.
type Pool struct {
	endpoints   []*endpoint
	protocol    *protocol     // not to be read before determined
	determined  chan struct{} // closed when the dialect is known
	maxBlockAge time.Duration
	metrics     *metrics
	registry    prometheus.Registerer

	chain     *heights.Chain
	execution executions

	mu      sync.Mutex      // of SetDialect
	life    context.Context //nolint:containedctx // the pool's own: ends with Close
	end     context.CancelFunc
	running sync.RWMutex // held for reading by Run
}

// New checks the options. It neither connects nor starts anything.
func New(o Options) (*Pool, error) {
	o = o.WithDefaults()
	p := &Pool{
		maxBlockAge: o.MaxBlockAge, protocol: &protocol{}, determined: make(chan struct{}),
		registry: cmp.Or[prometheus.Registerer](o.Registerer, prometheus.NewRegistry()),
	}
	p.life, p.end = context.WithCancel(context.Background())
	if o.Dialect != Undetermined {
		if err := p.SetDialect(o.Dialect); err != nil {
			return nil, err
		}
	}
	p.metrics = newMetrics(p)
	for i, configured := range o.Endpoints {
		e, err := p.build(configured, o)
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i+1, err)
		}
		p.endpoints = append(p.endpoints, e)
		p.metrics.expect(e.name)
	}
	p.follow(o)
	return p, p.registry.Register(p.metrics)
}

func (p *Pool) build(configured Endpoint, o Options) (*endpoint, error) {
	base, err := parseBase(configured.REST)
	if err != nil {
		return nil, fmt.Errorf("REST address: %w", err)
	}
	var rpc *comet.Client
	if configured.Comet != "" {
		base, err := parseBase(configured.Comet)
		if err != nil {
			return nil, fmt.Errorf("CometBFT address: %w", err)
		}
		rpc = comet.New(base, o.Timeout, idleClose)
	}
	e := newEndpoint(p.unused(base.Host), newClient(base, o, p.protocol), rpc, o, p.metrics)
	if configured.GRPC != "" {
		if e.grpc, err = newGRPCClient(e.name, configured.GRPC, o); err != nil {
			return nil, fmt.Errorf("gRPC address: %w", err)
		}
	}
	return e, nil
}

// follow makes the chain of all endpoints.
func (p *Pool) follow(o Options) {
	ho := heights.Options{
		ChainID: o.ChainID, Interval: o.BlockInterval, RollbackAfter: o.RollbackAfter, Ledger: o.Ledger, Logger: o.Logger,
		OnEpoch: o.OnEpoch, Turned: p.metrics.epochs.Inc,
		Reconnected: func(node string) { p.metrics.reconnects.WithLabelValues(node).Inc() },
	}
	if ho.OnEpoch == nil {
		ho.OnEpoch = func(string, int64) {}
	}
	var nodes []*heights.Node
	for _, e := range p.endpoints {
		nodes = append(nodes, e.blocks)
	}
	p.chain = heights.New(ho, nodes...)
}

// unused makes names unique, for nodes that one host serves under two paths.
func (p *Pool) unused(host string) string {
	name := host
	for n := 2; ; n++ {
		taken := func(e *endpoint) bool { return e.name == name }
		if !slices.ContainsFunc(p.endpoints, taken) {
			return name
		}
		name = fmt.Sprintf("%s#%d", host, n)
	}
}

// Run follows the heights of all endpoints until ctx ends or Close is called,
// and waits for all it started. It returns nil.
func (p *Pool) Run(ctx context.Context) error {
	p.running.RLock()
	defer p.running.RUnlock()
	if p.life.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	select {
	case <-p.determined:
	case <-ctx.Done():
		return nil
	}
	var workers sync.WaitGroup
	for _, e := range p.endpoints {
		workers.Go(func() { p.probe(ctx, e) })
		if e.grpc != nil {
			workers.Go(func() { e.grpc.follow(ctx, func() int64 { return p.Tip().Height }, p.ChainID) })
		}
	}
	workers.Go(func() { p.chain.Run(ctx) })
	workers.Wait()
	return nil
}

// Close ends Run and the waits for a block, and waits for Run. Requests
// that are in flight go on. It returns nil.
func (p *Pool) Close() error {
	p.end()
	p.running.Lock()
	defer p.running.Unlock()
	p.registry.Unregister(p.metrics)
	for _, e := range p.endpoints {
		e.closeIdle()
	}
	return nil
}

// HasGRPC says whether the gRPC server of an endpoint is there, and of our chain.
func (p *Pool) HasGRPC() bool {
	chain := p.ChainID()
	return slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return e.grpc != nil && e.grpc.serves(chain) })
}

// ChainID is the chain of the pool, "" while none is configured or seen. Once
// known it does not change.
func (p *Pool) ChainID() string { return p.chain.ChainID() }

// Tip is the newest block over all endpoints. It takes no lock and does not
// allocate.
func (p *Pool) Tip() Tip { return p.chain.Tip() }

// HashOf is the hash of a block, in hex, "" if it is not known.
func (p *Pool) HashOf(height int64) string { return p.chain.HashOf(height) }

// Replaced tells whether a block whose hash begins so is known to be none of the chain: it
// has another one in that place, or had this one before it was set back below it.
func (p *Pool) Replaced(height int64, prefix string) bool { return p.chain.Replaced(height, prefix) }

// Spare tells whether an endpoint has room for a read ahead
// ([Request].Ahead). One that may send a single request at a time never has.
func (p *Pool) Spare() bool {
	return slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return !e.open() && e.queue.Spare() })
}

// Expected is how long a request that comes now is likely to take, the wait for its turn
// included, at the endpoint where that is shortest. 0 is unknown.
func (p *Pool) Expected(r Request) (shortest time.Duration) {
	for _, e := range p.endpoints {
		if v := e.look(); v.Foreign() || e.open() {
			continue
		}
		if wait := e.queue.Expected(r.queued()); shortest == 0 || wait < shortest {
			shortest = wait
		}
	}
	return shortest
}

// Raise lifts the tip to a height that another replica has read at, as far as
// the pace allows and for as long as a source here may take to confirm it.
func (p *Pool) Raise(height int64) { p.chain.Raise(height) }

// noEndpoint is the error where no endpoint may be asked.
func (p *Pool) noEndpoint() error {
	var reasons []error
	foreign := 0
	for _, e := range p.endpoints {
		v := e.look()
		if v.Foreign() {
			v.restErr, foreign = errWrongChain, foreign+1
		}
		if v.restErr != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", e.name, v.restErr))
		}
	}
	err := unreachable(errors.Join(reasons...))
	if len(p.endpoints) == 0 {
		err.Msg = "no chain node is configured"
	} else if foreign == len(p.endpoints) {
		err.Msg = origin + " serves another chain than " + p.ChainID()
	}
	return err
}

// lowest is the oldest block that an endpoint may have.
func (p *Pool) lowest() int64 {
	lowest := p.Tip().Height
	for _, e := range p.endpoints {
		if v := e.look(); !v.Foreign() {
			lowest = min(lowest, max(v.Lowest, 1))
		}
	}
	return lowest
}
