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

// A Transport is how a value is read from a node.
type Transport int

// The two transports to a node.
const (
	GRPC Transport = iota
	RPC            // abci_query of CometBFT
)

// CanServe reports whether an API can serve an entry: a value always, and an error only from its own transport.
// gRPC can serve the RPC's errors if no node offers gRPC.
func (v *Values) CanServe(e *cache.Entry) bool {
	switch e.Type {
	case node.MessageType:
		return true
	case node.StatusType, node.UnrunType:
		return v.transport == GRPC
	default:
		return v.transport == RPC || !v.o.GRPC
	}
}

// A Request names a value by its method and message.
type Request struct {
	Method  string // with its service and a leading slash
	Message []byte
}

// ReadNode reads a node over one transport, and over the other one if that fails. A transaction whose first call has timed out
// may still run, so it is sent again only if the node could not be reached or answered that it could not run it.
func (v *Values) ReadNode(ctx context.Context, r node.Request, q Request, via Transport) (*node.Answer, error) {
	transports := []Transport{RPC}
	switch {
	case v.o.GRPC && via == GRPC:
		transports = []Transport{GRPC, RPC}
	case v.o.GRPC:
		transports = []Transport{RPC, GRPC}
	}
	var first error
	var failed *node.Answer // for example from a node that has just started and knows no newest block by gRPC
	for _, transport := range transports {
		a, err := v.reader.Nodes.Fetch(ctx, q.over(r, transport))
		switch {
		case err == nil && (a.Reason == node.Other || a.Unkept):
			failed = cmp.Or(failed, a)
		case err == nil && transport == RPC && (first != nil || failed != nil) && isUnrouted(a.Body): // the gRPC server, which failed, may have the method
		case err == nil:
			return a, nil
		case ctx.Err() != nil || errors.Is(err, upstream.ErrYielded) || errors.Is(err, upstream.ErrBehind) || upstream.KindOf(err) == upstream.Overloaded,
			Posts(q.Method) && upstream.KindOf(err) != upstream.Unreachable:
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

// over returns the request to a node over a transport.
func (q Request) over(r node.Request, via Transport) node.Request {
	r.OneNode, r.Call, r.Invoke = Posts(q.Method), nil, nil
	if via == GRPC {
		r.Invoke = &node.Invocation{Method: q.Method, Message: q.Message}
	} else {
		r.Call = &node.Call{Method: "abci_query", Params: q.params, Size: 2 * len(q.Message)}
	}
	return r
}

// params returns the parameters of abci_query.
func (q Request) params(height int64) json.RawMessage {
	path, _ := json.Marshal(q.Method) // strings always encode
	p := make([]byte, 0, len(path)+2*len(q.Message)+64)
	p = append(append(p, `{"path":`...), path...)
	if len(q.Message) > 0 {
		p = fmt.Appendf(p, `,"data":"%X"`, q.Message) // upper case, as CometBFT's command line sends it
	}
	if height > 0 {
		p = fmt.Appendf(p, `,"height":"%d"`, height)
	}
	return append(p, '}')
}
