package node

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/heights"
	"github.com/tipcache/tipcache/upstream/heights/tip"
	"github.com/tipcache/tipcache/upstream/transport"
)

// Settings are the operator's settings of a pool, with their keys in the section chain.
type Settings struct {
	Timeout     time.Duration `yaml:"timeout" must:"positive" doc:"Timeout of one node request. A client request may take three times as long, and at least 15s."`
	InFlight    int           `yaml:"in_flight" must:"not negative" doc:"Maximum number of concurrent requests to a node. Only one of them may read a whole set. 0 adapts the maximum to latency and block times: 4 lists at first, then 2 to 32, or twice as many single items."`
	MaxBlockAge time.Duration `yaml:"max_block_age" must:"positive" doc:"A node is not ready if its newest block is older than this."`

	RollbackAfter time.Duration `yaml:"-"` // how long all sources must claim lower blocks before the chain counts as rolled back; default 10s
}

// DefaultSettings returns the settings of an operator who sets none.
func DefaultSettings() Settings {
	return Settings{Timeout: 5 * time.Second, MaxBlockAge: 30 * time.Second}
}

// Options configure a Pool. Zero values select the defaults.
type Options struct {
	Settings
	Endpoints []Endpoint // may be empty
	Dialect   Dialect    // default Story
	ChainID   string     // the chain every endpoint must serve; "" accepts the chain of the first endpoint

	maxBody   int64         // maximum size of a response in bytes; default 64 MiB, changed only by tests
	retry     time.Duration // between two probes of a server after a failed request; default 1s, changed only by tests
	maxAge    time.Duration // when gRPC connections are replaced; default transport.DefaultMaxAge, changed only by tests
	reconnect time.Duration // how long requests wait for the next gRPC connection of a node; default 1s, changed only by tests
	patience  time.Duration // how long a new or silent node counts as one that may have a pruned height; default 10 min, changed only by tests
	Queue     time.Duration // how long a foreground request waits for its turn; default 2s

	VerbatimKeys bool // page keys are sent as clients send them; the pool keeps testing which form each node reads, so that Request.Keys can select one

	BlockInterval time.Duration // assumed time between blocks until it has been learned; default 2.1s

	// OnEpoch is called by Run when the chain and its epoch are known, and when a reset or rollback begins a new
	// epoch, before the tip falls. Responses of one epoch are invalid in another.
	OnEpoch func(chainID string, epoch int64)

	Memory     *account.Part         // budget of responses being read; nil means no limit
	Ledger     heights.Ledger        // nil if there are no other replicas
	Logger     *slog.Logger          // nil discards logs
	Registerer prometheus.Registerer // nil disables metrics
}

// An Endpoint is one node.
type Endpoint struct {
	REST  string // base URL of the REST server, such as http://127.0.0.1:1317; a path is a prefix
	Comet string // base URL of CometBFT's RPC, such as tcp://127.0.0.1:26657; may be ""
	GRPC  string // address of the gRPC server, such as 127.0.0.1:9090 or https://127.0.0.1:9090 for TLS; may be ""

	Priority int         // the node is read only while no node with a lower value can answer
	Headers  http.Header // sent with every request, such as the key of a provider; hidden in logs and responses
}

// WithDefaults replaces zero values by the defaults.
func (o Options) WithDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, DefaultSettings().Timeout)
	o.retry = cmp.Or(o.retry, time.Second)
	o.maxAge = cmp.Or(o.maxAge, transport.DefaultMaxAge)
	o.reconnect = cmp.Or(o.reconnect, time.Second)
	o.patience = cmp.Or(o.patience, 10*time.Minute)
	o.maxBody = cmp.Or(o.maxBody, 64<<20)
	o.Queue = cmp.Or(o.Queue, 2*time.Second)
	o.MaxBlockAge = cmp.Or(o.MaxBlockAge, DefaultSettings().MaxBlockAge)
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

// chain lets a Pool embed the methods of heights.Chain without exporting the field.
type chain = heights.Chain

// A Pool holds the nodes of one chain. Run follows their heights. Its methods are safe for concurrent use.
type Pool struct {
	*chain

	members  atomic.Pointer[[]*endpoint]
	changing sync.Mutex     // guards writes of members
	retiring sync.WaitGroup // removed endpoints
	options  Options        // with defaults
	protocol *protocol
	metrics  *metrics

	execution executions
	refusals  refusals
	nextKeys  *nextKeys

	life    context.Context //nolint:containedctx // ends with Close
	end     context.CancelFunc
	running sync.Mutex // held by Run
}

// New returns a pool, or an error if the options are invalid. It neither connects nor starts a goroutine.
func New(o Options) (*Pool, error) {
	o = o.WithDefaults()
	o.Registerer = cmp.Or[prometheus.Registerer](o.Registerer, prometheus.NewRegistry())
	protocol, err := o.Dialect.protocol()
	if err != nil {
		return nil, err
	}
	p := &Pool{options: o, protocol: protocol, nextKeys: newNextKeys()}
	p.life, p.end = context.WithCancel(context.Background())
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

// Run follows the heights of all endpoints until ctx ends or Close is called. It returns nil. A second
// call waits until the first one has returned.
func (p *Pool) Run(ctx context.Context) error {
	p.running.Lock()
	defer p.running.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	if p.life.Err() == nil {
		p.chain.Run(ctx)
	}
	return nil
}

// follow probes the servers of an endpoint until ctx ends.
func (p *Pool) follow(ctx context.Context, e *endpoint) {
	var probes sync.WaitGroup
	defer probes.Wait()
	probes.Go(func() { p.probe(ctx, e) })
	if e.comet != nil {
		probes.Go(func() { p.probeFailing(ctx, e.rpcServer, func(ctx context.Context) { _, _ = e.comet.Status(ctx) }) })
	}
	if e.grpc != nil {
		learn := func(ctx context.Context) (ok bool) {
			p.guard(func() { ok = e.grpc.learn(ctx, e.newest(p.Tip()), p.ChainID()) })
			return ok
		}
		probes.Go(func() { e.grpc.follow(ctx, learn) })
		probes.Go(func() {
			e.grpc.renew(ctx, func() (int64, string) { return e.newest(p.Tip()), p.ChainID() })
		})
		probes.Go(func() { p.probeFailing(ctx, e.grpcServer, func(ctx context.Context) { learn(ctx) }) })
	}
}

// guard calls work, which handles responses of a node, and recovers from a panic that a response causes.
func (p *Pool) guard(work func()) { upstream.GuardInput(p.options.Logger, "probe", work) }

// Close ends pending waits for blocks, ends Run and returns after it. Requests in flight continue. Close returns nil.
func (p *Pool) Close() error {
	p.end()
	p.running.Lock()
	defer p.running.Unlock()
	p.options.Registerer.Unregister(p.metrics.own)
	for _, e := range p.endpoints() {
		e.close()
	}
	p.retiring.Wait()
	return nil
}

// Spare reports whether the node for a read at the tip has capacity for a read ahead ([Request].Ahead). A node with a limit of
// one request never does.
func (p *Pool) Spare() bool {
	e := p.wouldChoose(Request{Height: AtTip})
	return e != nil && e.queue.Spare()
}

// Expected returns the expected duration of a new request, including queueing, at the node that Fetch would choose. 0
// means unknown.
func (p *Pool) Expected(r Request) time.Duration {
	e := p.wouldChoose(r)
	if e == nil {
		return 0
	}
	return e.queue.Expected(r.queued())
}

// WaitHeight waits until the tip is at least height. The error is an *upstream.Error of kind Timeout, or
// context.Canceled.
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
