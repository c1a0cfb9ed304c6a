package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/upstream/node"
)

// Options say how values are read.
type Options struct {
	GRPC bool                   // a node offers gRPC, and values are read by it
	Rows map[string]dialect.Row // of methods, by their names
}

// Values are the values of a chain's state, for one interface.
type Values struct {
	o         Options
	reader    *blocks.Reader
	kind      *blocks.Kind // of the state
	found     *blocks.Kind // of what is fixed once it is found
	transport Transport
}

// New makes the values that a reader reads, of a kind that is pinned and of one that is fixed once
// it is found, for an interface that asks in a way of its own.
func New(o Options, r *blocks.Reader, kind, found *blocks.Kind, by Transport) *Values {
	return &Values{o: o, reader: r, kind: kind, found: found, transport: by}
}

// Query is the query for the value that a method gives for a message. What is found has no height
// to be asked at.
func (v *Values) Query(q Request, hs blocks.Heights) *blocks.Query {
	kind := v.kind
	if v.o.Finds(q.Method, q.Message) {
		kind, hs.Pinned = v.found, 0
	}
	return &blocks.Query{Key: q.key(keyPrefix), Kind: kind, Cost: v.o.CostOf(q.Method, q.Message), Heights: hs, Origin: &stateRead{Values: v, Request: q}}
}

// Height returns the height that a response names. A found value is the same at the tip.
func (v *Values) Height(q *blocks.Query, a *blocks.Result) int64 {
	if q.Kind == v.found {
		return max(a.Tip.Height, a.Entry.Height)
	}
	return a.Entry.Height
}

// Lookup asks the cache, by a tip. What another interface was answered by an error is asked for
// once more, under a key of this one's own.
func (v *Values) Lookup(ctx context.Context, from *http.Request, rec *record.Record, q *blocks.Query, tip node.Tip) (blocks.Result, error) {
	if e := v.reader.Peek(q, tip); e == nil || v.Speaks(e) {
		if a, err := v.reader.Lookup(ctx, from, rec, q, tip); err != nil || v.Speaks(a.Entry) {
			return a, err
		}
	}
	o := *q.Origin.(*stateRead) //nolint:forcetypeassert // it is Query's
	o.verbatim = true
	own := *q
	own.Key, own.Origin = o.key(ownKeys[v.transport]), &o
	return v.reader.Lookup(ctx, from, rec, &own, tip)
}

// longest is the length of a message from which a key has a digest of it.
const longest = 256

func (q Request) key(before string) string {
	room := make([]byte, 0, len(before)+len(q.Method)+1+2*min(len(q.Message), longest))
	room = append(append(append(room, before...), q.Method...), '?')
	if len(q.Message) > longest {
		sum := sha256.Sum256(q.Message)
		return string(hex.AppendEncode(append(room, "sha256:"...), sum[:]))
	}
	return string(hex.AppendEncode(room, q.Message))
}

// MethodIn returns the method that a key of the cache names; ok is false for a key of no value.
func MethodIn(key string) (method string, ok bool) {
	before, rest, _ := strings.Cut(key, "/")
	name, _, _ := strings.Cut(rest, "?")
	return "/" + name, slices.Contains([]string{keyPrefix, ownKeys[GRPC], ownKeys[RPC]}, before)
}

// keyPrefix begins the keys of values in the cache, and ownKeys of what one interface alone may give.
const keyPrefix = "state"

var ownKeys = [...]string{GRPC: "state by gRPC", RPC: "state by RPC"}

// Select selects the values of a method, by its name with its service, or of all methods
// for "".
func Select(method string) cache.Selection {
	if method == "" {
		return cache.Selection{Prefix: keyPrefix}
	}
	return cache.Selection{Prefix: keyPrefix, Path: "*/" + strings.TrimPrefix(method, "/")}
}

// SelectNaming selects the values whose requests have a text, such as an address. A request of more
// than 256 bytes is not found.
func SelectNaming(text string) cache.Selection {
	return cache.Selection{Prefix: keyPrefix, Contains: hex.EncodeToString([]byte(text))}
}
