package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// A Pool is the nodes of one chain. Make it with New, have Run follow the
// heights, and Close it in the end. All methods may be called at any time.
type Pool struct {
	endpoints   []*endpoint
	hedge       time.Duration
	maxBlockAge time.Duration
	onChainID   func(string)
	told        sync.Once // onChainID
	log         *slog.Logger
	metrics     *metrics

	tip   *tipState
	moved beacon // the tip, or what is known of an endpoint

	mu      sync.Mutex
	chainID string
	closed  bool
	done    chan struct{} // closed by Close
	runs    sync.WaitGroup
}

// New checks the options. It neither connects nor starts anything.
func New(o Options) (*Pool, error) {
	o = o.withDefaults()
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no endpoint of a chain node")
	}
	p := &Pool{
		hedge: o.Hedge, maxBlockAge: o.MaxBlockAge, onChainID: o.OnChainID, log: o.Logger,
		tip: newTip(o.BlockInterval), chainID: o.ChainID, done: make(chan struct{}),
	}
	p.metrics = newMetrics(p, o.Registerer)
	for i, configured := range o.Endpoints {
		e, err := p.build(configured, o)
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i+1, err)
		}
		p.endpoints = append(p.endpoints, e)
		p.metrics.expect(e.name)
	}
	if err := p.metrics.register(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Pool) build(configured Endpoint, o Options) (*endpoint, error) {
	base, err := parseBase(configured.REST)
	if err != nil {
		return nil, fmt.Errorf("REST address: %w", err)
	}
	var rpc *comet
	if configured.Comet != "" {
		base, err := parseBase(configured.Comet)
		if err != nil {
			return nil, fmt.Errorf("CometBFT address: %w", err)
		}
		rpc = newComet(base, o)
	}
	return newEndpoint(p.unused(base.Host), newClient(base, o), rpc, o, p.metrics), nil
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
	if !p.enter() {
		return nil
	}
	defer p.runs.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if id := p.ChainID(); id != "" {
		p.tell(id)
	}
	var workers sync.WaitGroup
	for _, e := range p.endpoints {
		workers.Go(func() { p.probe(ctx, e) })
		if e.comet != nil {
			f := &follower{pool: p, endpoint: e, log: p.log.With("node", e.name)}
			workers.Go(func() { f.run(ctx) })
		}
	}
	select {
	case <-ctx.Done():
	case <-p.done:
		cancel()
	}
	workers.Wait()
	return nil
}

func (p *Pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.runs.Add(1)
	return true
}

// Close ends Run and those who wait for a block, and waits for Run. Requests
// that are in flight go on. It returns nil.
func (p *Pool) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.done)
	}
	p.mu.Unlock()
	p.runs.Wait()
	p.metrics.unregister()
	for _, e := range p.endpoints {
		e.closeIdle()
	}
	return nil
}

// ChainID is the chain of the pool, "" while none is configured or seen. Once
// known it does not change.
func (p *Pool) ChainID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chainID
}

// claim says whether an endpoint's chain is ours. The first one seen becomes
// ours if none was configured.
func (p *Pool) claim(id string) bool {
	p.mu.Lock()
	first := p.chainID == ""
	if first {
		p.chainID = id
	}
	ours := p.chainID == id
	p.mu.Unlock()
	if first {
		p.tell(id)
	}
	return ours
}

func (p *Pool) tell(id string) {
	if p.onChainID != nil {
		p.told.Do(func() { p.onChainID(id) })
	}
}

// Tip is the newest block over all endpoints. It takes no lock and does not
// allocate.
func (p *Pool) Tip() Tip { return p.tip.read() }

func (p *Pool) hear(height int64, header time.Time, paced bool) {
	p.tip.hear(height, header, paced)
	p.moved.flash()
}

// Raise lifts the tip to a height that another replica has read at. It is
// ignored while no tip is known, and where it is more than 1000 blocks ahead.
func (p *Pool) Raise(height int64) {
	if p.tip.raise(height) {
		p.moved.flash()
	}
}

// WaitHeight returns nil as soon as the tip is at least height. Otherwise the
// error is an *upstream.Error of kind Timeout, or context.Canceled.
func (p *Pool) WaitHeight(ctx context.Context, height int64) error {
	for {
		moved := p.moved.lit()
		if p.Tip().Height >= height {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return p.late(ctx, height)
		case <-p.done:
			return unreachable(errClosed)
		}
	}
}

// late is the error for a block that did not come before ctx ended.
func (p *Pool) late(ctx context.Context, height int64) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	msg := fmt.Sprintf("%s does not have block %d yet", origin, height)
	if height == 0 {
		msg = origin + " has not answered yet"
	}
	return &upstream.Error{
		Kind: upstream.Timeout, Msg: msg, Err: ctx.Err(), RetryAfter: max(p.Tip().Interval, time.Second),
	}
}

// nobody is the error where no endpoint may be asked.
func (p *Pool) nobody() error {
	var reasons []error
	for _, e := range p.endpoints {
		v := e.look()
		if v.refused {
			v.restErr = errWrongChain
		}
		if v.restErr != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", e.name, v.restErr))
		}
	}
	return unreachable(errors.Join(reasons...))
}
