package blocks

import (
	"context"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Kind is a kind of reads, such as all reads of one path. Its fields must not change after it is added to a Reader.
type Kind struct {
	Name         string                                           // its name in policies, unique in the Reader
	Class        Class                                            // freshness class
	NoFuture     bool                                             // refuses reads above the tip without asking a node
	Headers      func(e *cache.Entry, key string) ResponseHeaders // headers specific to the interface; nil for none
	ComparedBody func(body []byte) []byte                         // part of a body that streams compare to detect a change; nil means all of it

	policy atomic.Pointer[cache.Policy] // for reads at the newest block
}

// ResponseHeaders are headers specific to the interface, as in [respond.Response].
type ResponseHeaders struct {
	Vary     string
	NoHeight bool
	Extra    []respond.ExtraHeader
}

// A Read is one read of the chain. Equal reads have the same Key, whatever their encoding. After AwaitBlock it does not change,
// and it does not refer to the request, so the fast lane and read-ahead share it with later requests.
type Read struct {
	Key    string       // cache key without the height. It contains no @ and begins with the name of the interface
	Size   int          // bytes of the request, if Key has only its digest
	Kind   *Kind        // kind of reads that it belongs to
	Source Source       // asks the nodes
	Ask    node.Request // what Source asks; the height and the client are added
	web.Heights
	Walk  Snapshot // block at which the walk over pages began; zero for none
	Batch *Batch   // read in place of Source; nil for a single read
	With  []*Read  // other reads of the same request, served at the same tip
	Typos string   // parameters of the request that are ignored and are probably typos; "" for none
}

// A Snapshot is the block at which a walk over pages continues while a node has it. After that the page is read at the
// newest block.
type Snapshot struct {
	Height int64
	Epoch  uint64 // a height of an earlier epoch is on another chain
}

// A Source asks the nodes of one API. It may be called after the request has ended.
type Source interface {
	// Ask asks a node. ask is q.Ask with the height and the client. before is the entry in memory, nil for none. A refusal is
	// an answer; an error means that there was none.
	Ask(ctx context.Context, q *Read, ask node.Request, before *cache.Entry) (*node.Answer, error)
	// Entry returns the entry to cache for a node's answer.
	Entry(q *Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error)
}
