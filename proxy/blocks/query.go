package blocks

import (
	"context"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Kind is what reads have in common, such as those of one path. Its fields do not
// change once it is added to a Reader.
type Kind struct {
	Name     string                                   // what policies call it; no other kind of the Reader has it
	Class    Class                                    // of its freshness
	NoFuture bool                                     // a read at a block that has not come is refused without asking a node
	Tell     func(e *cache.Entry, key string) Telling // what the interface tells of an answer; nil: nothing of its own
	Essence  func(body []byte) (news []byte)          // the part of a body whose change is news to a stream, perhaps the body itself; nil: all of it

	pinned, fixed bool                         // what Class says of itself
	policy        atomic.Pointer[cache.Policy] // of reads at the newest block
}

// A Telling is what an interface tells of an answer in headers of its own, as [web.Answer] has it.
type Telling struct {
	Vary     string
	NoHeight bool
	Lines    []web.Line
}

// A Query is one read. Equal ones have the same Key, however their requests were
// spelled.
type Query struct {
	Key    string // of the cache, without a height. It has no @, and begins with a word of its interface's own
	Kind   *Kind
	Cost   node.Cost
	Origin Origin
	Heights
	Walk  Snapshot // what the page before was read at; zero for none
	Batch *Batch   // what is asked in place of Origin; nil for one read
	With  []*Query // others of its request, which are answered by the tip that is awaited for it
}

// A Snapshot is a block at which a query goes on, as long as it can be read. From then
// on the query is one for the newest block.
type Snapshot struct {
	Height int64
	Epoch  uint64 // a height of an earlier epoch is one of another history
}

// An Origin asks the nodes for what one Query is about. It may be asked after the
// request is over.
type Origin interface {
	// Fetch asks a node. r says at which height, at what cost and in whose turn; the
	// origin adds what it asks for. before is the entry in memory, nil for none. A
	// refusal is an answer; an error is silence.
	Fetch(ctx context.Context, r node.Request, before *cache.Entry) (*node.Answer, error)
	// Entry makes what is cached of a node's answer.
	Entry(a *node.Answer, before *cache.Entry) (*cache.Entry, error)
}
