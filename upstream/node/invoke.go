package node

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/upstream"
)

// An Invocation is a method of a node's gRPC that takes one message and answers with one. Its
// Answer has as Body the response, or the google.rpc.Status that says why there is none.
type Invocation struct {
	Method  string // with its service and the slash before that
	Message []byte
	Write   bool // it may change something: it is sent to one node, once
}

// The types of an Answer to an Invocation.
const (
	MessageType = "application/grpc"
	StatusType  = "application/x-protobuf; messageType=google.rpc.Status"                // of a method that has run, at the answer's height
	UnrunType   = "application/x-protobuf; messageType=google.rpc.Status; handler=unrun" // of one that has not
)

// invoke asks a node's gRPC once.
func (e *endpoint) invoke(ctx context.Context, r Request, height int64) (*Answer, error) {
	var header metadata.MD
	var reply []byte
	ctx = at(passTrace(ctx), r.told(height))
	err := e.grpc.conn.Invoke(ctx, r.Invoke.Method, &r.Invoke.Message, &reply, grpc.Header(&header))
	told := heightOf(header)
	if err == nil {
		return &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: MessageType, Body: reply, Height: told}, nil
	}
	return refusedInvocation(status.Convert(err), told, r.told(height))
}

// passTrace has the trace of a context go on at the server.
func passTrace(ctx context.Context) context.Context {
	h := http.Header{}
	upstream.PassTrace(ctx, h)
	var pairs []string
	for name, values := range h {
		pairs = append(pairs, strings.ToLower(name), values[0])
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// heightOf is the height that the headers of an answer tell, 0 for none.
func heightOf(header metadata.MD) int64 {
	if said := header.Get(heightKey); len(said) > 0 {
		height, _ := strconv.ParseInt(said[0], 10, 64)
		return height
	}
	return 0
}

const (
	tooLarge   = "grpc: received message larger than max"
	noNewest   = "context did not contain latest block height"
	inFuture   = "cannot query with height in the future"
	prunedText = "failed to load state at height"
)

// refusedInvocation is what a status means, which came with a height if the method has run. A
// status that the client has made for want of one is silence.
func refusedInvocation(st *status.Status, told, asked int64) (*Answer, error) {
	text := st.Message()
	switch {
	case told > 0 && st.Code() == codes.ResourceExhausted && strings.HasPrefix(text, tooLarge):
		return nil, badAnswer(errTooLarge)
	case told == 0 && st.Code() == codes.DeadlineExceeded:
		return nil, upstream.Silence(origin, context.DeadlineExceeded)
	case told == 0 && st.Code() == codes.Canceled:
		return nil, context.Canceled
	case told == 0 && st.Code() == codes.Unavailable:
		return nil, upstream.Silence(origin, errors.New(text))
	}
	body, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil, badAnswer(err)
	}
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Type: UnrunType, Body: body, Text: text, Height: told}
	switch {
	case told > 0:
		a.Type, a.Reason = StatusType, Refused
	case strings.Contains(text, prunedText):
		a.Reason, a.Height = Pruned, asked
	case strings.Contains(text, inFuture):
		a.Reason, a.Height = FutureHeight, asked
	case strings.Contains(text, noNewest):
		a.Reason = Other
	default:
		a.Reason, a.NodeStatus = BadInput, http.StatusNotFound // no handler has run
	}
	return a, nil
}

// Stream opens a stream of a method to a node's gRPC, which lasts as long as ctx. It is opened once,
// and takes no turn: its owner bounds how many there are.
func (p *Pool) Stream(ctx context.Context, method string) (grpc.ClientStream, error) {
	f := &fetch{pool: p, request: Request{Invoke: &Invocation{Method: method}, Height: AtTip, Unpinned: true}}
	e, _ := f.choose()
	if e == nil {
		return nil, p.noEndpoint()
	}
	stream, err := e.grpc.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return nil, upstream.Silence(origin, err)
	}
	return stream, nil
}
