package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Options say how values are read.
type Options struct {
	GRPC bool                   // values are read by gRPC, because a node offers it
	Rows map[string]dialect.Row // by method name
}

// Values reads the values of a chain's state for one API.
type Values struct {
	o         Options
	reader    *blocks.Reader
	kind      *blocks.Kind // for values of the state
	found     *blocks.Kind // for values that are fixed once they are found
	transport Transport
}

// New returns values that r reads. kind is for values of the state, found for values that are fixed once they are
// found, and by is the API's own transport.
func New(o Options, r *blocks.Reader, kind, found *blocks.Kind, by Transport) *Values {
	return &Values{o: o, reader: r, kind: kind, found: found, transport: by}
}

// Read returns the read of the value of a request. A value that is fixed is read without a height.
func (v *Values) Read(q Request, hs web.Heights) *blocks.Read {
	kind, via := v.kind, RPC
	if v.o.IsFixed(q.Method, q.Message) {
		kind, hs.Pinned = v.found, 0
	}
	if v.o.GRPC {
		via = GRPC
	}
	ask := q.over(node.Request{Cost: v.o.CostOf(q.Method, q.Message)}, via)
	return &blocks.Read{Key: q.key(), Size: len(q.Message), Kind: kind, Source: v, Ask: ask, Heights: hs}
}

// Height returns the height to send with a result. A fixed value is also correct at the tip.
func (v *Values) Height(q *blocks.Read, a *blocks.Result) int64 {
	if q.Kind == v.found {
		return max(a.Tip.Height, a.Entry.Height)
	}
	return a.Entry.Height
}

// Lookup reads through the cache at a tip. If the entry is the other transport's error, it reads again, by a key of this API.
func (v *Values) Lookup(ctx context.Context, from *web.Request, q *blocks.Read, tip node.Tip) (blocks.Result, error) {
	if e := v.reader.Peek(q, tip); e == nil || v.CanServe(e) {
		if a, err := v.reader.Lookup(ctx, from, q, tip); err != nil || v.CanServe(a.Entry) {
			return a, err
		}
	}
	own := *q
	own.Key, own.Source = ownKeys[v.transport]+strings.TrimPrefix(q.Key, keyPrefix), verbatim{v}
	return v.reader.Lookup(ctx, from, &own, tip)
}

// longest is the length of the longest message that a key contains. For longer ones it has a digest.
const longest = 256

func (q Request) key() string {
	buf := make([]byte, 0, len(keyPrefix)+len(q.Method)+1+2*min(len(q.Message), longest))
	buf = append(append(append(buf, keyPrefix...), q.Method...), '?')
	if len(q.Message) > longest {
		sum := sha256.Sum256(q.Message)
		return string(hex.AppendEncode(append(buf, "sha256:"...), sum[:]))
	}
	return string(hex.AppendEncode(buf, q.Message))
}

// keyPrefix begins the keys of values in the cache. ownKeys begin the keys of entries that only one API may serve.
const keyPrefix = "state"

var ownKeys = [...]string{GRPC: "state by gRPC", RPC: "state by RPC"}

// Select selects the values of a method, given by SERVICE/METHOD, or of all methods for "".
func Select(method string) cache.Selection {
	if method == "" {
		return cache.Selection{Prefix: keyPrefix}
	}
	return cache.Selection{Prefix: keyPrefix, Path: "*/" + strings.TrimPrefix(method, "/")}
}

// SelectNaming selects the values whose requests contain a text, such as an address. It does not find requests longer than 256
// bytes, and may select others, because it compares hexadecimal texts.
func SelectNaming(text string) cache.Selection {
	return cache.Selection{Prefix: keyPrefix, Contains: hex.EncodeToString([]byte(text))}
}
