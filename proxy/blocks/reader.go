package blocks

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Nodes are the chain's nodes, as a Reader needs them; *node.Pool implements it.
type Nodes interface {
	// Fetch reads a node. A refusal is an answer; an error means that there was none.
	Fetch(ctx context.Context, r node.Request) (*node.Answer, error)
	// Expected returns how long a request is likely to take, including the wait for its turn; 0 if unknown.
	Expected(r node.Request) time.Duration
	// Tip returns the newest known block. Every request calls it.
	Tip() node.Tip
	// WaitHeight returns nil once the tip has reached the height.
	WaitHeight(ctx context.Context, height int64) error
	// Moved returns a channel that is closed when the tip moves. Call it before Tip.
	Moved() <-chan struct{}
	// Executed returns the lowest known height, at most height, whose state includes block number of the execution
	// chain. If there is none, since is 0, and newest is the newest block that the state at height includes.
	Executed(ctx context.Context, client string, height, number int64) (since, newest int64, err error)
	// ChainID returns the name of the chain, "" while it is unknown.
	ChainID() string
	session.History
	// Raise reports a height at which another replica has read.
	Raise(height int64)
}

// Options configure a Reader. Nodes is required.
type Options struct {
	Nodes         Nodes
	Classes       Classes       // [Reader.SetClasses] replaces them
	Auth          bool          // a key is required
	MinHeightWait time.Duration // longest wait for a block that a request requires; default 10 s
	Patience      time.Duration // longest wait for a block that the client has seen on its connection or in its session, as in [cache.Patience]
}

// A Reader serves the reads of one interface. It owns no goroutine.
type Reader struct {
	Nodes Nodes
	Stack *web.Stack

	cache   *cache.Cache
	o       Options
	kinds   []*Kind
	classes atomic.Pointer[Classes] // replaced while serving, read without a lock
	waiters *limits.Places
}

// New returns a Reader. It checks the options and fills in the defaults.
func New(o Options, stack *web.Stack, c *cache.Cache) (*Reader, error) {
	if o.Nodes == nil {
		return nil, errors.New("blocks: Nodes is required")
	}
	o.MinHeightWait = cmp.Or(o.MinHeightWait, limits.DefaultWait)
	r := &Reader{Nodes: o.Nodes, Stack: stack, cache: c, o: o, waiters: stack.Admission.NewWaiters()}
	return r, r.SetClasses(o.Classes, nil)
}

// Add adds a kind of reads. It must be called before SetClasses, and before the Reader is used.
func (r *Reader) Add(k *Kind) *Kind {
	r.kinds = append(r.kinds, k)
	k.setPolicy(r.classes.Load().of(k.Class))
	return k
}
