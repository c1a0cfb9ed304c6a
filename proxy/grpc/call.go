package grpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
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
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// HeightHeader asks for a height and tells one, as the metadata heightKey does.
const (
	HeightHeader = "X-Cosmos-Block-Height"
	heightKey    = "x-cosmos-block-height"
)

// A call is one of a method.
type call struct {
	*Handler
	name   string
	stream grpc.ServerStream
	start  time.Time
	from   *http.Request
	answer http.Header // what is told of the client's limits
	rec    *record.Record
	st     *status.Status // the method's own no; nil for none

	receiver receiver   // of gRPC; gRPC-Web has its messages in its stream
	message  []byte     // the only one; nil before it is received
	failure  error      // of receiving it in the lane
	held     *conn.Body // memory of the message; nil for a small one
	again    web.Call   // in the lane; nil: that has no part in the call
	sent     node.Sent  // by the lane; To is the stream on a connection of ours, nil for others
}

// value answers with a value of the state.
func (k *call) value() (size int, err error) {
	message, hs, ok, err := k.asked()
	if !ok {
		return 0, err
	}
	return k.valueOf(message, hs)
}

func (k *call) valueOf(message []byte, hs blocks.Heights) (size int, err error) {
	limit := k.reader.Deadline(k.from, k.rec)
	defer limit.Release()
	q := k.values.Query(state.Request{Method: k.name, Message: message}, hs)
	tip, err := k.reader.AwaitBlock(limit, k.from, k.rec, q)
	if err != nil {
		return 0, err
	}
	k.repeat(q)
	a, err := k.values.Lookup(limit, k.from, k.rec, q, tip)
	if err != nil {
		return 0, err
	}
	told := k.reader.Response(k.rec, q, &a)
	reply, st, ran := k.o.State.Response(k.name, a.Entry.Type, a.Entry.Body)
	if ran {
		k.tell(k.values.Height(q, &a), statusKey, respond.CacheStatus(&told))
	}
	return k.send(reply, st)
}

// found answers with what is found, and is fixed from then on. Where the client names a height, the
// node says what it makes of that.
func (k *call) found() (size int, err error) {
	message, hs, ok, err := k.asked()
	switch {
	case !ok:
		return 0, err
	case len(k.from.Header[HeightHeader]) > 0, !k.o.State.Finds(k.name, message):
		return k.serviceOf(message, hs)
	}
	return k.valueOf(message, hs)
}

// service answers with what a node says at present, or at the height that the client names.
func (k *call) service() (size int, err error) {
	message, hs, ok, err := k.asked()
	if !ok {
		return 0, err
	}
	return k.serviceOf(message, hs)
}

func (k *call) serviceOf(message []byte, hs blocks.Heights) (size int, err error) {
	return k.unpinned(message, hs, state.Simulates(k.name), func(ctx context.Context, r node.Request) (int, error) {
		return k.sendAnswer(k.values.Ask(ctx, r, state.Request{Method: k.name, Message: message}, state.GRPC))
	})
}

// unpinned has a method that ignores heights asked for of a node, once the block has come that the
// client has to see, and where it posts once it is the client's turn.
func (k *call) unpinned(message []byte, hs blocks.Heights, posts bool, ask func(context.Context, node.Request) (size int, err error)) (size int, err error) {
	limit := k.reader.Deadline(k.from, k.rec)
	defer limit.Release()
	if _, err := k.reader.AwaitBlock(limit, k.from, k.rec, &blocks.Query{Kind: k.never, Heights: hs}); err != nil {
		return 0, err
	}
	r := node.Request{Height: cmp.Or(hs.Pinned, node.AtTip), Unpinned: hs.Pinned == 0, Cost: k.o.State.CostOf(k.name, message), Client: k.rec.Client.Name()}
	if posts {
		if err := k.o.Posting.Acquire(limit, r.Client); err != nil {
			return 0, err
		}
	}
	return ask(limit, r)
}

// sendAnswer sends what a node has said.
func (k *call) sendAnswer(a *node.Answer, err error) (size int, _ error) {
	if err != nil {
		return 0, err
	}
	k.rec.Blameless = a.Reason != node.Other
	reply, st, ran := k.o.State.Response(k.name, a.Type, a.Body)
	if ran && a.Height > 0 {
		k.tell(a.Height)
	}
	return k.send(reply, st)
}

// asked returns the only message and the heights of a call. If ok is false the call is refused: k.st has the
// status, or err the failure.
func (k *call) asked() (message []byte, hs blocks.Heights, ok bool, err error) {
	if message, ok, err = k.receive(); ok {
		hs, ok = k.heights()
	}
	return message, hs, ok, err
}

// heights reads the heights that the call names, the one to read at as the node does. Not ok says
// that the call is refused.
func (k *call) heights() (hs blocks.Heights, ok bool) {
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
	hs.Pinned, refusal = blocks.ReadNodeHeight(named[0])
	switch {
	case len(named) > 1:
		k.st = status.Newf(codes.InvalidArgument, "%s comes %d times, so that it is not clear which height is meant", heightKey, len(named))
	case refusal != "":
		k.st = status.New(codes.Unknown, refusal)
	case hs.Pinned > 0 && hs.Min > hs.Pinned:
		k.st = status.Newf(codes.InvalidArgument, "%s is above %s: no answer can be both", strings.ToLower(respond.MinHeightHeader), heightKey)
	default:
		return hs, true
	}
	return hs, false
}

// receive receives the only message. If ok is false the call is refused: k.st has the status, or err the
// failure. A message that takes longer than a request may ends this call alone on its connection.
func (k *call) receive() (message []byte, ok bool, err error) {
	if k.receiver.from == nil {
		err = k.stream.RecvMsg(&k.message)
	} else if err = k.failure; err == nil {
		g := guardUntil(k.reader.Stack.Deadline(k.start), k.receiver.from)
		if k.message == nil {
			k.message, k.held, err = k.receiver.next(k.hold)
		}
		if err = g.release(err); err == nil {
			go k.receiver.discard() // ends with the stream, as a rule at once: clients end it with their message
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

// hold begins to hold memory for a message.
func (k *call) hold() *conn.Body { return k.reader.Stack.HoldBody(&k.rec.Client) }

// tell sets the headers of an answer: its height, pairs of keys and values, and what is told of
// the client's limits.
func (k *call) tell(height int64, pairs ...string) {
	md := make(metadata.MD, 1+len(pairs)/2+len(k.answer))
	md[heightKey] = []string{strconv.FormatInt(height, 10)}
	for i := 0; i < len(pairs); i += 2 {
		md[pairs[i]] = pairs[i+1 : i+2]
	}
	for name, values := range k.answer {
		md[strings.ToLower(name)] = values
	}
	_ = k.stream.SetHeader(md) // fails only when the client has left
}

// send sends the response, or takes note of the status in its place.
func (k *call) send(reply []byte, st *status.Status) (size int, err error) {
	if k.st = st; st != nil {
		return 0, nil
	}
	if err := k.deliver(reply); err != nil {
		return 0, context.Canceled // the client has left
	}
	return len(reply), nil
}

// deliver sends a message. Until the client has taken it, which may be long after the call, its stream is open, and
// the connection may be closed for it.
func (k *call) deliver(message []byte) error {
	if stream, ok := k.sent.To.(*conn.CallStream); ok {
		stream.Sending(message)
		return k.stream.SendMsg(&node.Sent{Bytes: message, To: stream})
	}
	return k.stream.SendMsg(&message)
}

// large is the longest message that is small beside what every connection may have.
const large = conn.Uncounted
