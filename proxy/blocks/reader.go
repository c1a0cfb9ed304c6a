package blocks

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Nodes is what a Reader needs of the chain's nodes; *node.Pool has it.
type Nodes interface {
	// Fetch asks a node. A refusal is an answer; an error is silence.
	Fetch(ctx context.Context, r node.Request) (*node.Answer, error)
	// Expected is how long a request that comes now is likely to take, the wait for its
	// turn included; 0 is unknown.
	Expected(r node.Request) time.Duration
	// Tip is the newest block known. It is asked for on every request.
	Tip() node.Tip
	// WaitHeight returns nil once the tip has reached the height.
	WaitHeight(ctx context.Context, height int64) error
	// Moved is closed when the tip moves. Take it before looking.
	Moved() <-chan struct{}
	// Executed is the lowest known height, up to one, at which a block of the execution
	// client counts; 0 where it does not, and then the newest that does.
	Executed(ctx context.Context, height, number int64) (since, newest int64, err error)
	// ChainID names the chain, "" while it is not known.
	ChainID() string
	// HashOf is the hash of a block in hex, "" if it is not known.
	HashOf(height int64) string
	// Replaced tells whether a block whose hash begins so is known to be none of the chain,
	// which was set back.
	Replaced(height int64, prefix string) bool
	// Raise reports a height that another replica has read at.
	Raise(height int64)
}

// Cache is what a Reader needs of the cache; *cache.Cache has it.
type Cache interface {
	// Get answers a query from the stores, or by the origin.
	Get(ctx context.Context, q cache.Query, origin cache.Origin) (cache.Result, error)
	// Fresh answers a query from an entry in memory that is fresh now, if there
	// is one.
	Fresh(q cache.Query, now time.Time, of func(*cache.Entry) (use bool)) (res cache.Result, ok bool)
	// Peek gives the entry that Get would give at once, nil for none, and leaves no
	// trace of that.
	Peek(q cache.Query) *cache.Entry
}

// Options configure a Reader. Nodes is required.
type Options struct {
	Nodes         Nodes
	Auth          bool          // a key is required
	MinHeightWait time.Duration // how long a request waits for a block that it must see; default 10 s
	Patience      time.Duration // how long a request waits for a block that its client has seen on the connection, as [cache.Patience] says
}

// A Reader reads a chain by the block, on behalf of all interfaces to it. It owns no
// goroutine.
type Reader struct {
	Nodes Nodes
	Stack *web.Stack

	cache   Cache
	o       Options
	kinds   []*Kind
	classes atomic.Pointer[Classes] // replaced while serving, read without a lock
	waiters *limits.Places
	seed    maphash.Seed // of this process alone
}

// New checks the options and fills in the defaults. The classes are the default ones
// until SetClasses.
func New(o Options, stack *web.Stack, c Cache) (*Reader, error) {
	if o.Nodes == nil {
		return nil, errors.New("blocks: Nodes is required")
	}
	o.MinHeightWait = cmp.Or(o.MinHeightWait, limits.DefaultWait)
	r := &Reader{Nodes: o.Nodes, Stack: stack, cache: c, o: o, waiters: stack.Admission.NewWaiters(), seed: maphash.MakeSeed()}
	return r, r.SetClasses(Classes{}, nil)
}

// Add adds a kind of reads. It is called before the Reader is asked, and before
// SetClasses.
func (r *Reader) Add(k *Kind) *Kind {
	r.kinds = append(r.kinds, k)
	k.pinned, k.fixed = k.Class.Pinned(), k.Class.Fixed()
	k.setPolicy(r.classes.Load().of(k.Class))
	return k
}

// Arrive has the lane of a client's connection take up a call of gRPC that begins, nil where it has
// no part in that.
func (r *Reader) Arrive(client *web.Conn, method string, metadata map[string][]string, start time.Time) web.Call {
	return r.Stack.Arrive(client, method, metadata, r.o.Auth, start)
}
