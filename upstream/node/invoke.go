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
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// An Invocation is a unary gRPC call. The Body of its Answer is the response or a google.rpc.Status.
type Invocation struct {
	Method  string // /service/method
	Message []byte
	Write   bool // it may change state, so it is sent once
}

// The types of an Answer to an Invocation.
const (
	MessageType = "application/grpc"
	StatusType  = "application/x-protobuf; messageType=google.rpc.Status"                // the handler has run, at the answer's height
	UnrunType   = "application/x-protobuf; messageType=google.rpc.Status; handler=unrun" // no handler has run
)

func (e *endpoint) invoke(ctx context.Context, r Request, height int64) (*Answer, error) {
	var header, trailer metadata.MD
	ctx = e.grpc.outgoing(ctx, r.sentHeight(height))
	reply, err := e.grpc.invoke(ctx, r.Invoke, r.isSentOnce(), grpc.Header(&header), grpc.Trailer(&trailer))
	if errors.Is(err, account.ErrFull) {
		return nil, err
	}
	stated := statedHeight(append(header.Get(heightKey), trailer.Get(heightKey)...)...) // in trailers since SDK 0.54
	st := redactStatus(status.Convert(err), e.client.hide)
	switch {
	case err == nil:
		return &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: MessageType, Body: reply, Height: stated}, nil
	case ctx.Err() != nil: // the status is that of our own deadline, although there may be headers
		return nil, upstream.Silence(nodeName, ctx.Err())
	case st.Code() != codes.Unknown && brokenOff.MatchString(st.Message()): // a contract can choose the text of an unknown error
		return nil, upstream.Silence(nodeName, errors.New(st.Message()))
	case st.Code() != codes.Unknown && unreadableMessage.MatchString(st.Message()):
		return nil, badAnswer(errors.New(st.Message()))
	case stated <= 0:
		if err := e.gatewayStatus(st, metadata.Join(header, trailer)); err != nil {
			return nil, err
		}
	}
	return refusedInvocation(st, stated, r.sentHeight(height))
}

// redactStatus redacts the text of a status, and drops its details if they contain a secret.
func redactStatus(st *status.Status, hide *strings.Replacer) *status.Status {
	if b, err := proto.Marshal(st.Proto()); err == nil && hide.Replace(string(b)) == string(b) {
		return st
	}
	return status.New(st.Code(), hide.Replace(st.Message()))
}

// The beginnings of grpc-go's errors for messages above the size limit.
const (
	tooLarge         = "grpc: received message larger than max"
	inflatedTooLarge = "grpc: received message after decompression larger than max"
)

// notGRPC matches grpc-go's errors for a response that is not gRPC, such as an HTML page.
var notGRPC = regexp.MustCompile(`^(?:unexpected HTTP status code received from server|malformed header: missing HTTP content-type|transport: received unexpected content-type)`)

// rateLimited matches grpc-go's error for a response with the HTTP status 429, which becomes the same code as a 502.
var rateLimited = regexp.MustCompile(`^unexpected HTTP status code received from server: 429 `)

// brokenOff matches grpc-go's errors for a response that has no end, or is not one message, although it may have headers.
var brokenOff = regexp.MustCompile(`^(?:stream terminated by RST_STREAM|server closed the stream without sending trailers|error reading from server: |connection error: |closing transport due to: |cardinality violation: )`)

// unreadableMessage matches grpc-go's errors for a message that it cannot read. A breaker must not count them, because a handler
// may say "unexpected EOF" of its input.
var unreadableMessage = regexp.MustCompile(`^(?:unexpected EOF$|grpc: (?:compressed flag set |received unexpected payload format |failed to decompress |Decompressor is not installed ))`)

// gatewayStatus interprets a status without a height. It returns nil if a node sent the status, and an error otherwise. md is
// the response's metadata. It is empty if grpc-go made the status because there was no response.
func (e *endpoint) gatewayStatus(st *status.Status, md metadata.MD) error {
	_, known := classify(grpcUnrun, st.Message(), 0)
	switch code := st.Code(); {
	case notGRPC.MatchString(st.Message()):
	case code == codes.DeadlineExceeded:
		return upstream.Silence(nodeName, context.DeadlineExceeded)
	case len(md) == 0:
		return upstream.Silence(nodeName, errors.New(st.Message()))
	case known, sizeLimit.MatchString(st.Message()), code == codes.InvalidArgument, code == codes.Unimplemented, code == codes.Unknown, code == codes.Internal:
		return nil
	}
	var retry time.Duration
	if after := md.Get("retry-after"); len(after) > 0 {
		retry = upstream.RetryAfter(http.Header{"Retry-After": after})
	}
	lost := st.Code() == codes.Unavailable && !rateLimited.MatchString(st.Message())
	return e.gateway(upstream.Said{API: upstream.GRPC, Code: int64(st.Code()), Text: st.Message(), Lost: lost}, retry)
}

// refusedInvocation interprets an error status. stated is its height, or 0 if no handler has run.
func refusedInvocation(st *status.Status, stated, asked int64) (*Answer, error) {
	text := st.Message()
	if stated > 0 && st.Code() == codes.ResourceExhausted && (strings.HasPrefix(text, tooLarge) || strings.HasPrefix(text, inflatedTooLarge)) {
		return nil, badAnswer(errTooLarge)
	}
	if comet.IsShutdownError(text) && (stated <= 0 || st.Code() == codes.Internal) { // a contract may have chosen the text of another error of the state
		return nil, upstream.Silence(nodeName, errors.New(text))
	}
	body, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil, badAnswer(err)
	}
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Type: UnrunType, Body: body, Text: text, Height: stated, Code: st.Code(), Doubt: doubtOf(st.Code(), text)}
	if stated > 0 {
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

// Stream opens a gRPC stream to a node, which lasts until ctx ends or it is closed. It is not retried and does not
// queue, but waits while a node may soon be usable. The caller limits the number of streams, and closes them.
func (p *Pool) Stream(ctx context.Context, method string) (*Stream, error) {
	f := &fetch{pool: p, request: Request{Invoke: &Invocation{Method: method}, Height: AtTip, Unpinned: true}, pause: firstPause}
	wait, cancel := context.WithTimeout(ctx, p.options.reconnect)
	defer cancel()
	for {
		tip, chainID, moved := p.Look()
		e, hope := f.choose(tip, chainID)
		switch {
		case e != nil:
			return e.grpc.stream(ctx, method), nil
		case !hope, f.wait(wait, moved) != nil:
			return nil, p.noEndpoint()
		}
	}
}
