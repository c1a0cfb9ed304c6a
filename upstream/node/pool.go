package node

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// Options configure a Pool. The zero value of a field means its default.
type Options struct {
	Endpoints []Endpoint // none: nothing can be read, and the Pool is ready
	Dialect   Dialect    // Story; Undetermined reads nothing before SetDialect
	ChainID   string     // the chain every endpoint must serve; "" takes the first one seen

	Timeout  time.Duration // for one answer of one endpoint, queueing not included; 5s
	maxBody  int64         // largest answer in bytes; 64 MiB
	InFlight int           // requests one endpoint gets at once, of whatever cost; 0: as much as it bears, as package queue finds out
	scans    int           // of those, requests of cost Scan; 1
	retry    time.Duration // between two probes of a server whose last request failed; 1s
	Queue    time.Duration // how long a foreground request waits for its turn; 2s

	VerbatimKeys bool // requests name the form of their page keys (Request.Keys), so that of each node is found out before it is asked for a page

	MaxBlockAge   time.Duration // a chain whose newest block is older is not ready; 30s
	BlockInterval time.Duration // time between blocks until it has been learned; 2.1s
	RollbackAfter time.Duration // for so long all sources name lower blocks before the chain is taken for set back; 10s

	// OnEpoch is called from Run as soon as the chain and its epoch are known, and with another
	// epoch whenever the chain was reset or set back, before the tip falls. Nothing of one epoch is
	// true in another.
	OnEpoch func(chainID string, epoch int64)

	Memory     *account.Part         // in which answers are reserved while they are read; nil: no limit
	Ledger     heights.Ledger        // nil: no other replica is to agree
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil: no metrics
}

// An Endpoint is one node.
type Endpoint struct {
	REST  string // base URL of the REST server, such as http://127.0.0.1:1317; a path is a prefix
	Comet string // base URL of CometBFT's RPC, such as tcp://127.0.0.1:26657; "" for no height source
	GRPC  string // address of the gRPC server, such as 127.0.0.1:9090, with https:// before it for TLS; "" for none

	Priority int         // it is read only while no node with a lower one can answer
	Headers  http.Header // sent with every request, such as the key of a provider; hidden in logs and responses
}

// WithDefaults fills in what was left zero.
func (o Options) WithDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.retry = cmp.Or(o.retry, time.Second)
	o.maxBody = cmp.Or(o.maxBody, 64<<20)
	o.scans = min(cmp.Or(o.scans, 1), cmp.Or(o.InFlight, queue.Most))
	o.Queue = cmp.Or(o.Queue, 2*time.Second)
	o.MaxBlockAge = cmp.Or(o.MaxBlockAge, 30*time.Second)
	o.BlockInterval = cmp.Or(o.BlockInterval, 2100*time.Millisecond)
	o.RollbackAfter = cmp.Or(o.RollbackAfter, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.OnEpoch == nil {
		o.OnEpoch = func(string, int64) {}
	}
	return o
}

// A Tip is the newest block that can be read.
type Tip = tip.Tip

// chain gives a Pool the methods that tell of its blocks.
type chain = heights.Chain

// A Pool is the nodes of one chain. Make it with New, have Run follow the
// heights, and Close it in the end. All methods may be called at any time.
type Pool struct {
	*chain

	members    atomic.Pointer[[]*endpoint]
	changing   sync.Mutex      // of members and start
	start      func(*endpoint) // begins to probe an endpoint; nil while Run does not run
	retiring   sync.WaitGroup  // endpoints that were removed
	options    Options         // as New got them, with defaults
	protocol   *protocol       // not to be read before determined
	determined chan struct{}   // closed when the dialect is known
	metrics    *metrics

	execution executions

	mu      sync.Mutex      // of SetDialect
	life    context.Context //nolint:containedctx // the pool's own: ends with Close
	end     context.CancelFunc
	running chan struct{} // filled while Run follows the nodes
}

// New checks the options. It neither connects nor starts anything.
func New(o Options) (*Pool, error) {
	o = o.WithDefaults()
	o.Registerer = cmp.Or[prometheus.Registerer](o.Registerer, prometheus.NewRegistry())
	p := &Pool{options: o, protocol: &protocol{}, determined: make(chan struct{}), running: make(chan struct{}, 1)}
	p.life, p.end = context.WithCancel(context.Background())
	if o.Dialect != Undetermined {
		if err := p.SetDialect(o.Dialect); err != nil {
			return nil, err
		}
	}
	p.metrics = newMetrics(p)
	p.members.Store(&[]*endpoint{})
	p.chain = heights.New(heights.Options{
		ChainID: o.ChainID, Interval: o.BlockInterval, RollbackAfter: o.RollbackAfter, Ledger: o.Ledger, Logger: o.Logger,
		OnEpoch: o.OnEpoch, EpochChanged: p.metrics.epochs.Inc,
		Reconnected: func(node string) { p.metrics.reconnects.WithLabelValues(node).Inc() },
	})
	if err := p.SetEndpoints(o.Endpoints); err != nil {
		return nil, err
	}
	return p, p.options.Registerer.Register(p.metrics.own)
}

func (p *Pool) endpoints() []*endpoint { return *p.members.Load() }

// listed finds the methods on the page by which a CometBFT lists them.
var listed = regexp.MustCompile(`<a href="//[^"/]*/([a-z][a-z0-9_]*)`)

// CheckComet asks the CometBFT of an endpoint for its chain and its newest block, and for the methods that it lists.
func CheckComet(ctx context.Context, e Endpoint) (s comet.Status, methods []string, err error) {
	base, err := parseBase(e.Comet)
	if err != nil {
		return s, nil, err
	}
	o, hide := Options{}.WithDefaults(), upstream.NewRedactor(base, upstream.HeaderValues(e.Headers)...)
	c := comet.New(base, e.Headers, o.Timeout, 0, nil, upstream.NewOutage(o.Logger, "RPC of node "+base.Host))
	defer c.CloseIdle()
	if s, err = c.Status(ctx); err != nil {
		return s, nil, err
	}
	s.ChainID, s.TxIndex = hide.Replace(s.ChainID), hide.Replace(s.TxIndex)
	_, _, page, _ := c.Get(ctx, "/", o.maxBody) // a gateway may have none
	for _, m := range listed.FindAllSubmatch(page, -1) {
		methods = append(methods, string(m[1]))
	}
	return s, methods, nil
}

// Run follows the heights of all endpoints until ctx ends or Close is called. It returns nil.
// While one Run follows them another waits for its end.
func (p *Pool) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	select {
	case p.running <- struct{}{}:
		defer func() { <-p.running }()
	case <-ctx.Done():
		return nil
	}
	select {
	case <-p.determined:
	case <-ctx.Done():
		return nil
	}
	if p.life.Err() != nil { // of several that are ready select takes any
		return nil
	}
	var workers sync.WaitGroup
	p.setStart(func(e *endpoint) { p.follow(ctx, e, &workers) })
	p.chain.Run(ctx)
	p.setStart(nil)
	workers.Wait()
	return nil
}

// setStart begins to follow all endpoints by start, and from now on those that are added. nil ends the latter.
func (p *Pool) setStart(start func(*endpoint)) {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.start = start
	for _, e := range p.endpoints() {
		if start != nil {
			start(e)
		}
	}
}

// follow probes an endpoint until ctx ends or it is removed.
func (p *Pool) follow(ctx context.Context, e *endpoint, workers *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(e.life, cancel)
	workers.Go(func() { p.probe(ctx, e) })
	if e.comet != nil {
		workers.Go(func() { p.probeFailing(ctx, e.calls, func(ctx context.Context) { _, _ = e.comet.Status(ctx) }) })
	}
	if e.grpc != nil {
		learn := func(ctx context.Context) (ok bool) {
			p.guard(func() { ok = e.grpc.learn(ctx, p.Tip().Height, p.ChainID()) })
			return ok
		}
		workers.Go(func() { e.grpc.follow(ctx, learn) })
		workers.Go(func() { p.probeFailing(ctx, e.invokes, func(ctx context.Context) { learn(ctx) }) })
	}
}

// guard calls work, which handles responses of a node. A panic drops them.
func (p *Pool) guard(work func()) {
	_ = upstream.Guard(p.options.Logger, "probe", func() error {
		work()
		return nil
	})
}

// Close ends Run and the waits for a block, and waits for Run. Requests in flight go on. It returns
// nil.
func (p *Pool) Close() error {
	p.end()
	p.running <- struct{}{}
	defer func() { <-p.running }()
	p.options.Registerer.Unregister(p.metrics.own)
	for _, e := range p.endpoints() {
		e.closeIdle()
	}
	p.retiring.Wait()
	return nil
}

// Spare reports whether an endpoint has room for a read ahead ([Request].Ahead). One that may send a single request at a
// time never has.
func (p *Pool) Spare() bool {
	for e := range p.preferred() {
		if e.queue.Spare() {
			return true
		}
	}
	return false
}

// Expected is how long a request that comes now is likely to take, the wait for its turn
// included, at the endpoint where that is shortest. 0 is unknown.
func (p *Pool) Expected(r Request) (shortest time.Duration) {
	for e := range p.preferred() {
		if wait := e.queue.Expected(r.queued()); shortest == 0 || wait < shortest {
			shortest = wait
		}
	}
	return shortest
}

// WaitHeight returns nil as soon as the tip is at least height. Otherwise the
// error is an *upstream.Error of kind Timeout, or context.Canceled.
func (p *Pool) WaitHeight(ctx context.Context, height int64) error {
	for {
		moved := p.chain.Moved()
		if p.Tip().Height >= height {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return p.late(ctx, height)
		case <-p.life.Done():
			return unreachable(errClosed)
		}
	}
}
