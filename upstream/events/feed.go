package events

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// Options of a Feed. Nodes and Heights are required.
type Options struct {
	Nodes      func() []Node // returns the current nodes in order of preference
	Heights    Heights
	Queue      int                   // maximum number of unread events per subscription; 0 means 1000
	Memory     *account.Account      // for subscriptions and unread events; nil means no limit
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil disables metrics
}

// Heights provides the chain's newest block.
type Heights interface {
	ChainID() string
	Tip() tip.Tip
	// Moved returns a channel that is closed when the tip moves. Call it before Tip.
	Moved() <-chan struct{}
	// HashOf returns the hash of a block at or below the tip, or "" if it is unknown.
	HashOf(height int64) string
}

// A Node is one node's CometBFT.
type Node struct {
	Name string
	// Fit reports whether the feed may use the node: it serves the chain, has the newest block, and responds.
	Fit func() bool
	// NoEvents returns why the node provides no usable events, or nil if it does. Fit returns false while it is non-nil.
	NoEvents func() error
	// Subscribe subscribes with a query and waits for the acknowledgement.
	Subscribe func(ctx context.Context, query string) (Stream, error)
	// Call calls a method and limits its result to maxBytes.
	Call func(ctx context.Context, method string, params any, maxBytes int64) (json.RawMessage, error)
}

// A Stream delivers the messages of a node's subscription.
type Stream interface {
	// Next waits for the next message and returns its result. The error is upstream.ErrRemoved if the node was removed.
	Next(ctx context.Context) (json.RawMessage, error)
	// Close ends the subscription and unblocks Next.
	Close()
}

// MaxMessage is the size limit of a block, of its results, and of a message with both, in bytes.
const MaxMessage = 64 << 20

// A Feed publishes the events of a chain while Run runs.
type Feed struct {
	o       Options
	hub     *hub
	metrics *metrics

	// Only Run uses these.
	demanded time.Time // when consensus events were last demanded
	failing  failing   // the next block, if nodes do not provide it

	mu    sync.Mutex
	next  int64  // height to announce next; 0 until a tip is known
	last  string // hash of the block before it; "" if unknown
	sent  int64  // newest block that was announced and not lost; 0 for none
	epoch int64  // epoch of all of them
}

// New returns a feed. It neither connects nor starts a goroutine.
func New(o Options) *Feed {
	o.Queue = cmp.Or(o.Queue, 1000)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	f := &Feed{o: o, metrics: newMetrics(o.Registerer)}
	f.hub = &hub{memory: o.Memory.Events(), log: o.Logger, groups: map[string]*group{}, byValue: map[equality]map[*group]struct{}{}, changed: make(chan struct{}, 1)}
	if o.Memory != nil {
		o.Memory.AddHolders(account.Events, f.hub.holders)
	}
	return f
}

// Unsupported returns why no node provides usable events, or nil if one does.
func (f *Feed) Unsupported() (err error) {
	for _, n := range f.o.Nodes() {
		if err = n.NoEvents(); err == nil {
			return nil
		}
	}
	return err
}

// Run publishes events while a client subscribes, until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	var waits sync.WaitGroup // goroutines that wait for nodes to find transactions; they outlast a change of the demand
	defer waits.Wait()
	startWait := func(wait func(ctx context.Context)) { waits.Go(func() { wait(ctx) }) }
	for ctx.Err() == nil {
		if some, consensus := f.demand(); some {
			f.follow(ctx, consensus, startWait)
			if some, _ = f.demand(); !some {
				f.failing = failing{}
				_ = upstream.Sleep(ctx, firstDelay) // the next subscriber opens a connection to the node
			}
			continue
		}
		select {
		case <-f.hub.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// demand reports whether there are subscriptions, and whether consensus events are received. They are for a while longer
// than demanded: each change ends the node's subscription, and a client may subscribe and unsubscribe all the time.
func (f *Feed) demand() (some, consensus bool) {
	some, consensus = f.hub.demand()
	if consensus {
		f.demanded = time.Now()
	}
	return some, time.Since(f.demanded) < linger
}

// startAtTip makes the block after the tip the next to announce. The hub calls it for the first subscription.
func (f *Feed) startAtTip() {
	f.mu.Lock()
	f.next = 0
	f.mu.Unlock()
	f.nextAt(f.o.Heights.Tip())
}

// nextAt returns the height to announce next, or 0 while no tip is known. It becomes the height after t if it is unknown, if a new
// epoch may lack the last block, or if the tip has fallen since the first client subscribed. If the chain fell before the epoch
// began, it becomes the height after that to which it fell. No block is announced twice.
func (f *Feed) nextAt(t tip.Tip) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case t.Height <= 0:
	case f.epoch != t.Epoch:
		if f.last == "" || t.Height < f.next-1 || f.o.Heights.HashOf(f.next-1) != f.last {
			first := t.Height + 1
			if f.next > 0 && t.FellTo > max(0, t.Height-maxFallen) {
				first = min(first, t.FellTo+1)
			}
			f.next, f.last, f.sent = first, "", 0
		}
		f.epoch = t.Epoch
	case f.next == 0:
		f.next, f.last = t.Height+1, ""
	case f.last == "":
		f.next = min(f.next, max(t.Height, f.sent)+1)
	}
	return f.next
}

// follows reports whether b is the child of the last announced block.
func (f *Feed) follows(b *Block) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last == "" || f.last == b.Previous
}

// markAnnounced records that a block was announced or, without a hash, lost, unless startAtTip moved past it.
func (f *Feed) markAnnounced(height int64, hash string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != height {
		return
	}
	if f.next, f.last = height+1, hash; hash != "" {
		f.sent = height
	}
}

type metrics struct {
	blocks  *prometheus.CounterVec
	leftOut *prometheus.CounterVec
	unheld  *prometheus.CounterVec
	slow    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: "tipcache_events_" + name, Help: help}, labels)
	}
	return &metrics{
		blocks:  counter("blocks_total", "Blocks by the source of the events sent to subscribers: announced (by a node), read (from a node) or lost (no node provides them).", "source"),
		leftOut: counter("left_out_total", "Events not sent because they could not be built from the node's block, by kind.", "kind"),
		unheld:  counter("unheld_total", "Blocks whose transaction events were sent before every node could find the transactions, by reason: late or no index.", "reason"),
		slow:    counter("canceled_total", "Subscriptions canceled because the client did not read its events.").WithLabelValues(),
	}
}
