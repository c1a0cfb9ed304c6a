package node

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
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
	var header, trailer metadata.MD
	ctx = at(passTrace(ctx), r.told(height))
	reply, err := e.grpc.invoke(ctx, r.Invoke, grpc.Header(&header), grpc.Trailer(&trailer))
	if errors.Is(err, account.ErrFull) {
		return nil, err
	}
	told := statedHeight(append(header.Get(heightKey), trailer.Get(heightKey)...)...) // in trailers since SDK 0.54
	st := status.Convert(err)
	if text := e.client.hide.Replace(st.Message()); text != st.Message() {
		st = status.New(st.Code(), text)
	}
	switch {
	case err == nil:
		return &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: MessageType, Body: reply, Height: told}, nil
	case told <= 0:
		if err := e.gatewayStatus(st, metadata.Join(header, trailer)); err != nil {
			return nil, err
		}
	}
	return refusedInvocation(st, told, r.told(height))
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

// tooLarge begins the text by which the client's library refuses a message.
const tooLarge = "grpc: received message larger than max"

// foreign begins the text of the client's library for an answer that is not one of gRPC, such as a page in HTML.
var foreign = regexp.MustCompile(`^(?:unexpected HTTP status code received from server|malformed header: missing HTTP content-type|transport: received unexpected content-type)`)

// gatewayStatus returns the error for a status without a height that no node gave, and nil for a node's. said is the
// metadata of the answer, which is empty where the client's library made the status for want of an answer.
func (e *endpoint) gatewayStatus(st *status.Status, said metadata.MD) error {
	_, known := classify(grpcUnrun, st.Message(), 0)
	switch code := st.Code(); {
	case foreign.MatchString(st.Message()):
	case code == codes.DeadlineExceeded:
		return upstream.Silence(origin, context.DeadlineExceeded)
	case code == codes.Canceled:
		return context.Canceled
	case len(said) == 0:
		return upstream.Silence(origin, errors.New(st.Message()))
	case known, code == codes.InvalidArgument, code == codes.Unimplemented, code == codes.Unknown, code == codes.Internal:
		return nil
	}
	var retry time.Duration
	if after := said.Get("retry-after"); len(after) > 0 {
		retry = upstream.RetryAfter(http.Header{"Retry-After": after})
	}
	return e.gateway(upstream.GRPC, int64(st.Code()), st.Message(), retry)
}

// refusedInvocation reads a status that came with a height if the method's handler has run, and with 0 if not.
func refusedInvocation(st *status.Status, told, asked int64) (*Answer, error) {
	text := st.Message()
	if told > 0 && st.Code() == codes.ResourceExhausted && strings.HasPrefix(text, tooLarge) {
		return nil, badAnswer(errTooLarge)
	}
	body, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil, badAnswer(err)
	}
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Type: UnrunType, Body: body, Text: text, Height: told}
	if told > 0 {
		a.Type, a.Reason = StatusType, Refused
		return a, nil
	}
	reason, known := classify(grpcUnrun, text, asked)
	switch a.Reason = reason; {
	case reason == Pruned || reason == FutureHeight:
		a.Height = asked
	case reason == BadInput, !known && st.Code() != codes.Unknown && st.Code() != codes.Internal:
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
	stream, err := e.grpc.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, e.grpc.limit())
	if err != nil {
		return nil, upstream.Silence(origin, err)
	}
	return stream, nil
}
