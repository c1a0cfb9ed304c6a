package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// By is a way to ask nodes.
type By int

// The ways, which are the interfaces' own.
const (
	GRPC By = iota
	RPC     // abci_query of CometBFT
)

// Speaks says whether an entry can be given by an interface: a value by any, and an error by the
// one that it was told by. The RPC's can be told by gRPC where no node offers that.
func (v *Values) Speaks(e *cache.Entry) bool {
	switch e.Type {
	case node.MessageType:
		return true
	case node.StatusType, node.UnrunType:
		return v.by == GRPC
	default:
		return v.by == RPC || !v.o.GRPC
	}
}

// A Request is what is asked of a method.
type Request struct {
	Method  string // with its service and the slash before that
	Message []byte
}

// Ask asks a node by gRPC or by its RPC, and where that is away in the other way.
func (v *Values) Ask(ctx context.Context, r node.Request, q Request, by By) (*node.Answer, error) {
	ways := []By{RPC}
	switch {
	case v.o.GRPC && by == GRPC:
		ways = []By{GRPC, RPC}
	case v.o.GRPC:
		ways = []By{RPC, GRPC}
	}
	var first error
	var failed *node.Answer // of a node that has just started, say, and knows no newest block by gRPC
	for _, way := range ways {
		a, err := v.reader.Nodes.Fetch(ctx, q.asked(r, way))
		switch {
		case err == nil && a.Reason == node.Other:
			failed = cmp.Or(failed, a)
		case err == nil:
			return a, nil
		case ctx.Err() != nil || errors.Is(err, upstream.ErrYielded) || errors.Is(err, upstream.ErrBehind) || upstream.KindOf(err) == upstream.Overloaded:
			return nil, err
		case first == nil:
			first = err
		}
	}
	if failed != nil {
		return failed, nil
	}
	return nil, first
}

// asked is what a node is asked in a way.
func (q Request) asked(r node.Request, by By) node.Request {
	if by == GRPC {
		r.Invoke = &node.Invocation{Method: q.Method, Message: q.Message}
	} else {
		r.Call = &node.Call{Method: "abci_query", Params: q.params}
	}
	return r
}

// params are those of abci_query.
func (q Request) params(height int64) json.RawMessage {
	p := fmt.Appendf(nil, `{"path":"%s"`, q.Method)
	if len(q.Message) > 0 {
		p = fmt.Appendf(p, `,"data":"%X"`, q.Message) // in upper case, as the command line of the RPC sends it
	}
	if height > 0 {
		p = fmt.Appendf(p, `,"height":"%d"`, height)
	}
	return append(p, '}')
}
