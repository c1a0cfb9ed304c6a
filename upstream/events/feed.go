package events

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// Options of a Feed. Nodes and Heights are required.
type Options struct {
	Nodes      func() []Node // as of now, in order of preference; nil: none
	Heights    Heights
	Queue      int                   // events that wait for a subscription before it ends; 1000
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil: no metrics
}

// Heights tell of the chain's newest block.
type Heights interface {
	ChainID() string
	Tip() tip.Tip
	// Moved is closed when the tip moves. Take it before looking.
	Moved() <-chan struct{}
}

// A Node is one node's CometBFT.
type Node struct {
	Name string
	// Fit says whether the node may be listened to: it serves our chain, has its newest block, and answers.
	Fit func() bool
	// NoEvents returns why events cannot be read from the node, nil where they can. Fit is false then.
	NoEvents func() error
	// Subscribe subscribes by a query and waits for the acknowledgement.
	Subscribe func(ctx context.Context, query string) (Stream, error)
	// Call calls a method, whose result has at most so many bytes.
	Call func(ctx context.Context, method string, params any, most int64) (json.RawMessage, error)
}

// A Stream is the messages of a subscription.
type Stream interface {
	// Next waits for the result of a message.
	Next(ctx context.Context) (json.RawMessage, error)
	// Close ends the subscription, and Next.
	Close()
}

// MaxMessage bounds a block, its results, and a message with both, in bytes.
const MaxMessage = 64 << 20

// A Feed is the events of a chain. Make it with New and have Run bring them.
type Feed struct {
	o       Options
	hub     *hub
	metrics *metrics

	mu    sync.Mutex
	next  int64  // the block that is announced next; 0: the one after the first tip that is known
	last  string // hash of the block before it; "" unknown
	epoch int64  // of both
}

// New makes a feed. It neither connects nor starts anything.
func New(o Options) *Feed {
	o.Queue = cmp.Or(o.Queue, 1000)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Nodes == nil {
		o.Nodes = func() []Node { return nil }
	}
	return &Feed{o: o, hub: newHub(), metrics: newMetrics(o.Registerer)}
}

// Unsupported returns why subscriptions are refused: events can be read from none of the nodes.
func (f *Feed) Unsupported() (err error) {
	for _, n := range f.o.Nodes() {
		if err = n.NoEvents(); err == nil {
			return nil
		}
	}
	return err
}

// Run brings events while a client subscribes, until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	var waits sync.WaitGroup // for transactions to be found
	defer waits.Wait()
	for ctx.Err() == nil {
		if some, wide := f.hub.demand(); some {
			f.follow(ctx, wide, &waits)
			continue
		}
		select {
		case <-f.hub.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// begin is called with the first subscription: what comes from now on is announced.
func (f *Feed) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = 0
	f.position(f.o.Heights.Tip())
}

// position finds the block to announce next where it is not known, or where the chain was
// set back, whose blocks have nothing to do with those before.
func (f *Feed) position(t tip.Tip) {
	if t.Height > 0 && (f.next == 0 || f.epoch != t.Epoch) {
		f.next, f.last, f.epoch = t.Height+1, "", t.Epoch
	}
}

// upcoming is the block to announce next, as of a tip; 0 while none is known.
func (f *Feed) upcoming(t tip.Tip) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.position(t)
	return f.next
}

// follows says whether a block is behind the one that was announced last.
func (f *Feed) follows(b *Block) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last == "" || f.last == b.Previous
}

// passed notes that a block was announced, unless a new subscription began behind it.
func (f *Feed) passed(height int64, hash string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == height {
		f.next, f.last = height+1, hash
	}
}

type metrics struct {
	blocks  *prometheus.CounterVec
	leftOut *prometheus.CounterVec
	unheld  *prometheus.CounterVec
	slow    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := promauto.With(r)
	return &metrics{
		blocks: m.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_events_blocks_total",
			Help: "Blocks by the source of the events sent to subscribers: announced (by a node), read (from a node) or lost (no node has them any more).",
		}, []string{"source"}),
		leftOut: m.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_events_left_out_total",
			Help: "Events not sent because they could not be built from the node's block, by kind.",
		}, []string{"kind"}),
		unheld: m.NewCounterVec(prometheus.CounterOpts{
			Name: "tipcache_events_unheld_total",
			Help: "Blocks whose transaction events were sent before every node could find the transactions, by reason: late or no index.",
		}, []string{"reason"}),
		slow: m.NewCounter(prometheus.CounterOpts{
			Name: "tipcache_events_canceled_total",
			Help: "Subscriptions canceled because the client did not read its events.",
		}),
	}
}
