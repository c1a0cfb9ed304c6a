package grpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// HeightHeader requests a height and reports one, like the metadata heightKey.
const (
	HeightHeader = "X-Cosmos-Block-Height"
	heightKey    = "x-cosmos-block-height"
)

type call struct {
	*Handler
	name   string
	stream grpc.ServerStream
	start  time.Time
	from   *web.Request   // its ResponseHeader has the rate limits
	st     *status.Status // status that the method returned; nil for success

	receiver   receiver          // for gRPC; gRPC-Web has the messages in its stream
	message    []byte            // the only message; nil before it is received
	receiveErr error             // of receiving the message for the lane
	held       *conn.RequestBody // memory of the message; nil for a small one
	laneCall   *lane.Call        // the call in the lane; nil if the lane does not handle it
	sampling   record.Sampling   // as the lane has decided
	sent       node.Sent         // by the lane; To is the call's stream, nil if the connection was not accepted by our listener
}

func (k *call) value(message []byte, hs web.Heights) (size int, err error) {
	limit := k.reader.Stack.WithDeadline(k.from)
	defer limit.Release()
	q := k.values.Read(state.Request{Method: k.name, Message: message}, hs)
	tip, err := k.reader.AwaitBlock(limit, k.from, q)
	if err != nil {
		return 0, err
	}
	if k.from.Record.LaneSlot != nil {
		k.from.Record.Replayer = &replayer{Replayer: k.reader.Replayer(q, laneMayServe), values: k.values, q: q}
	}
	a, err := k.values.Lookup(limit, k.from, q, tip)
	if err != nil {
		return 0, err
	}
	res := k.reader.Response(k.from, q, &a)
	k.from.Record.Failed = a.Entry.Failed
	reply, st, ran := k.o.State.Response(k.name, a.Entry.Type, a.Entry.Body)
	if ran {
		k.setHeaders(k.values.Height(q, &a), statusKey, string(respond.AppendCacheStatus(nil, &res)))
	}
	return k.send(reply, st)
}

// found answers with an item that never changes once found. If the client names a height, the call is passed to a
// node.
func (k *call) found(message []byte, hs web.Heights) (size int, err error) {
	if len(k.from.Header[HeightHeader]) > 0 || !k.o.State.IsFixed(k.name, message) {
		return k.service(message, hs)
	}
	return k.value(message, hs)
}

// service answers with what a node returns now, or at the height that the client names. The access rules also apply to the path
// in the message of ABCIQuery.
func (k *call) service(message []byte, hs web.Heights) (size int, err error) {
	if err := state.AdmitInner(k.reader.Stack, k.from, k.name, message); err != nil {
		return 0, err
	}
	return k.readNode(message, hs, state.Posts(k.name), func(ctx context.Context, r node.Request) (int, error) {
		a, err := k.values.ReadNode(ctx, r, state.Request{Method: k.name, Message: message}, state.GRPC)
		if err == nil {
			err = k.reader.CheckHeight(a.Height, hs.Min)
		}
		return k.sendAnswer(a, err)
	})
}

// readNode calls a node for a method whose responses are not cached, after waiting for the block that the client requires,
// and, for a transaction (posts), for the client's turn.
func (k *call) readNode(message []byte, hs web.Heights, posts bool, read func(context.Context, node.Request) (size int, err error)) (size int, err error) {
	limit := k.reader.Stack.WithDeadline(k.from)
	defer limit.Release()
	if _, err := k.reader.AwaitBlock(limit, k.from, &blocks.Read{Kind: k.never, Heights: hs}); err != nil {
		return 0, err
	}
	r := node.Request{Height: cmp.Or(hs.Pinned, node.AtTip), Unpinned: hs.Pinned == 0, Cost: k.o.State.CostOf(k.name, message), Client: k.from.Record.Client.Name()}
	if posts {
		if err := k.o.Posting.Acquire(limit, r.Client); err != nil {
			return 0, err
		}
	}
	return read(limit, r)
}

func (k *call) sendAnswer(a *node.Answer, err error) (size int, _ error) {
	if err != nil {
		return 0, err
	}
	k.from.Record.Failed = a.Reason == node.Other
	reply, st, ran := k.o.State.Response(k.name, a.Type, a.Body)
	if ran && a.Height > 0 {
		k.setHeaders(a.Height)
	}
	return k.send(reply, st)
}

// serveUnary receives the only message and the heights of a call, and answers them.
func (k *call) serveUnary(answer func(k *call, message []byte, hs web.Heights) (size int, err error)) (size int, err error) {
	message, ok, err := k.receive()
	if !ok {
		return 0, err
	}
	hs, ok := k.heights()
	if !ok {
		return 0, nil
	}
	return answer(k, message, hs)
}

// heights returns the heights that the call names. Like nodes, it parses the height to read at. It returns false,
// with the status in k.st, if the call is refused.
func (k *call) heights() (hs web.Heights, ok bool) {
	var err error
	if hs.Min, err = web.ReadBlock(strings.ToLower(respond.MinHeightHeader), k.from.Header[respond.MinHeightHeader]); err != nil {
		k.st = status.New(codes.InvalidArgument, failure.Of(err).Public)
		return hs, false
	}
	named := k.from.Header[HeightHeader]
	if len(named) == 0 {
		return hs, true
	}
	var refusal string
	hs.Pinned, refusal = web.ReadNodeHeight(named[0])
	switch {
	case len(named) > 1:
		k.st = status.Newf(codes.InvalidArgument, "%s comes %d times, so that it is not clear which height is meant", heightKey, len(named))
	case refusal != "":
		k.st = status.New(codes.Unknown, refusal)
	case hs.Pinned > 0 && hs.Min > hs.Pinned:
		k.st = status.Newf(codes.InvalidArgument, "%s is above %s: no block satisfies both", strings.ToLower(respond.MinHeightHeader), heightKey)
	default:
		return hs, true
	}
	return hs, false
}

// receive returns the only message. If ok is false, the call is refused with the status k.st, or with err. If the
// message does not arrive before the request's deadline, this call ends, without affecting others on the connection.
func (k *call) receive() (message []byte, ok bool, err error) {
	if k.receiver.from == nil {
		if err = k.stream.RecvMsg(&k.message); cap(k.message) > 2*len(k.message) { // a read may retain it, but not what follows in the body
			k.message = bytes.Clone(k.message)
		}
	} else if err = k.receiveErr; err == nil {
		g := timeoutAt(k.reader.Stack.Deadline(k.start), k.receiver.from)
		if k.message == nil {
			k.message, k.held, err = k.receiver.next(k.hold)
		}
		if err = g.release(err); err == nil {
			go k.receiver.discard() // ends with the stream, usually at once, because clients close it after their message
		}
	}
	switch {
	case err == nil:
		return k.message, true, nil
	case errors.As(err, new(*failure.Failure)):
		return nil, false, err
	case errors.Is(err, io.EOF):
		k.st = status.New(codes.Unknown, "EOF")
	default:
		k.st = status.Convert(err)
	}
	return nil, false, nil
}

// hold returns a Body to reserve memory for a message.
func (k *call) hold() *conn.RequestBody { return k.reader.Stack.HoldBody(&k.from.Record.Client) }

// release releases the memory of the message, and the call in the lane.
func (k *call) release() {
	if k.laneCall != nil {
		k.laneCall.Release()
	}
	if k.held != nil {
		k.held.Release()
	}
}

// setHeaders sets the headers of a response: its height, pairs of keys and values, and the rate limit headers.
func (k *call) setHeaders(height int64, pairs ...string) {
	md := make(metadata.MD, 1+len(pairs)/2+len(k.from.ResponseHeader))
	md[heightKey] = []string{strconv.FormatInt(height, 10)}
	for i := 0; i < len(pairs); i += 2 {
		md[pairs[i]] = pairs[i+1 : i+2]
	}
	for name, values := range k.from.ResponseHeader {
		md[strings.ToLower(name)] = values
	}
	_ = k.stream.SetHeader(md) // fails only if the client has disconnected
}

// send sends the response, or records the status instead.
func (k *call) send(reply []byte, st *status.Status) (size int, err error) {
	if k.st = st; st != nil {
		return 0, nil
	}
	if err := k.deliver(reply); err != nil {
		return 0, context.Canceled // the client has disconnected
	}
	return len(reply), nil
}

// deliver sends a message. Its stream remains open until the client has received it, which may be long after the
// call. If memory runs out, the connection may be closed because of it.
func (k *call) deliver(message []byte) error {
	if stream, ok := k.sent.To.(*conn.CallStream); ok {
		stream.Sending(message)
		return k.stream.SendMsg(&node.Sent{Bytes: message, To: stream})
	}
	return k.stream.SendMsg(&message)
}
