package grpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// streamCost is the memory of a forwarded stream in addition to the windows of client and node, in bytes.
const streamCost = 32 << 10

// errStopping is the status of streams that end because the server stops.
var errStopping = status.New(codes.Unavailable, "the server is about to stop")

// pass forwards a stream to a node, once. Without a node's gRPC, it tries a method of the RPC.
func (k *call) pass() (size int, err error) {
	if k.o.Stream == nil {
		if size, err = k.serveUnary((*call).service); err == nil && k.st.Code() == codes.Unimplemented {
			k.st = status.New(codes.Unimplemented, k.st.Message()+": no node's gRPC is configured here, and the RPC does not have it")
		}
		return size, err
	}
	hs, ok := k.heights()
	if !ok {
		return 0, nil
	}
	releaseMemory, err := k.reader.Stack.HoldStream(2*window + streamCost)
	if err != nil {
		return 0, err
	}
	defer releaseMemory()
	if _, err := k.reader.AwaitBlock(k.from.Context(), k.from, &blocks.Read{Kind: k.never, Heights: web.Heights{Min: hs.Min}}); err != nil {
		return 0, err
	}
	leave, err := k.streams.Enter(&k.from.Record.Client, time.Second)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(k.from.Context())
	defer cancel(nil)
	defer context.AfterFunc(k.life, func() { cancel(nil) })()
	release, err := k.reader.OnRevoked(k.from, k.operation, cancel)
	if err != nil {
		return 0, err
	}
	defer release()
	if named := k.from.Header[HeightHeader]; len(named) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, heightKey, named[0])
	}
	k.from.Record.Streamed = true
	if s, ok := k.stream.(*webStream); ok {
		s.outlast(k.reader.Stack.Deadline)
	}
	to, err := k.o.Stream(ctx, k.name)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	client := k.from.Record.Client
	hold := func() *conn.RequestBody { return k.reader.Stack.HoldBody(&client) }
	go func() { // ends at the latest with the client's stream, after this handler has returned
		if err := k.guard(func() error { return k.forward(ctx, to, hold) }); err != nil {
			cancel(err)
		}
	}()
	return k.sendBack(ctx, to, hs.Min)
}

// operation returns the name of the method for access rules.
func (k *call) operation() string { return strings.TrimPrefix(k.name, "/") }

// forward sends the client's messages to the node. It returns the error of receiving a message. Each message after the
// first counts as a call.
func (k *call) forward(ctx context.Context, to *node.Stream, hold func() *conn.RequestBody) error {
	charge := func() error { return nil }
	for {
		message, held, err := k.nextMessage(hold, charge)
		charge = func() error { return k.charge(ctx) }
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseSend()
			return nil
		case err != nil:
			return err
		}
		err = to.Send(message)
		if held != nil {
			held.Release()
		}
		if err != nil {
			return nil //nolint:nilerr // sendBack receives the reason
		}
	}
}

// nextMessage receives the next message of a stream. It calls charge before reading the message. A message that has
// begun must arrive within the timeout of a request, because it holds memory.
func (k *call) nextMessage(hold func() *conn.RequestBody, charge func() error) (message []byte, held *conn.RequestBody, err error) {
	if k.receiver.from == nil {
		if err = k.stream.RecvMsg(&message); err == nil {
			err = charge()
		}
		return message, nil, err
	}
	if err = k.receiver.begin(); err == nil {
		err = charge()
	}
	if err != nil {
		return nil, nil, err
	}
	g := timeoutAt(k.reader.Stack.Deadline(time.Now()), k.receiver.from)
	message, held, err = k.receiver.next(hold)
	return message, held, g.release(err)
}

// charge waits until the client's limits allow another call. It returns an error if the client's key was removed
// or ctx ended.
func (k *call) charge(ctx context.Context) error {
	for {
		limiter, err := k.reader.Stack.Limiter(k.from)
		if err != nil {
			return err
		}
		wait := limiter.Spend(ctx)
		if wait == 0 {
			return nil
		}
		if err := upstream.Sleep(ctx, min(wait, time.Second)); err != nil { // the limits may change meanwhile
			return err
		}
	}
}

// sendBack sends the node's messages and status to the client, unless its headers state a height below a required block.
func (k *call) sendBack(ctx context.Context, from *node.Stream, required int64) (size int, err error) {
	for first := true; ; first = false {
		message, err := from.Receive()
		if first { // the node's headers have arrived, even if the call failed
			header := from.Header()
			height := k.statedHeight(header) // 0 if the node states it in the trailers, as since SDK 0.54
			if err := k.reader.CheckHeight(height, required); err != nil {
				return 0, err
			}
			_ = k.stream.SetHeader(k.fromNode(header))
		}
		if err != nil {
			switch cause := context.Cause(ctx); {
			case errors.As(cause, new(*failure.Failure)):
				return size, cause
			case k.life.Err() != nil:
				k.st = errStopping
			case cause != nil && !errors.Is(cause, ctx.Err()): // from receiving the client's message
				k.st = status.Convert(cause)
			case !errors.Is(err, io.EOF):
				k.st = status.Convert(err)
				k.from.Record.Failed = k.st.Code() == codes.Unavailable // clients can cause other codes
			}
			k.stream.SetTrailer(k.fromNode(from.Trailer()))
			return size, nil
		}
		if err := k.deliver(message); err != nil {
			return size, context.Canceled // the client has disconnected
		}
		size += len(message)
	}
}
