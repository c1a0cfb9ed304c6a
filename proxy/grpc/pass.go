package grpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
)

// pass passes a stream on to a node, once. Without a node's gRPC the method may be one of
// the RPC's.
func (k *call) pass() (size int, err error) {
	if k.o.Stream == nil {
		if size, err = k.service(); err == nil && k.st.Code() == codes.Unimplemented {
			k.st = status.New(codes.Unimplemented, k.st.Message()+": no node's gRPC is configured here, and the RPC does not have it")
		}
		return size, err
	}
	hs, ok := k.heights()
	if !ok {
		return 0, nil
	}
	if _, err := k.reader.AwaitBlock(k.from.Context(), k.from, k.rec, &blocks.Query{Kind: k.never, Heights: blocks.Heights{Min: hs.Min}}); err != nil {
		return 0, err
	}
	leave, err := k.streams.Enter(k.from, k.rec.Tenant, time.Second)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, cancel := context.WithCancel(k.from.Context())
	defer cancel()
	defer context.AfterFunc(k.life, cancel)()
	if named := k.from.Header[HeightHeader]; len(named) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, heightKey, named[0])
	}
	k.rec.Streamed = true
	_ = grpc.SetSendCompressor(k.from.Context(), encoding.Identity) // as of large messages, which may follow small ones
	if s, ok := k.stream.(*webStream); ok {
		s.flushed = true
	}
	node, err := k.o.Stream(ctx, k.name)
	if err != nil {
		return 0, err
	}
	go k.forward(node) // ends with the stream: it cannot be told to end before its handler returns
	return k.back(node)
}

// forward sends the client's messages to the node.
func (k *call) forward(to grpc.ClientStream) {
	for {
		var message []byte
		err := k.stream.RecvMsg(&message)
		if errors.Is(err, io.EOF) {
			_ = to.CloseSend()
			return
		}
		if err != nil || to.SendMsg(&message) != nil { // which back hears of
			return
		}
	}
}

// back sends the node's messages to the client, and its status.
func (k *call) back(from grpc.ClientStream) (size int, err error) {
	for first := true; ; first = false {
		var message []byte
		err := from.RecvMsg(&message)
		if first { // the node's headers have come, also where the call has failed
			header, _ := from.Header()
			_ = k.stream.SetHeader(k.fromNode(header))
		}
		if err != nil {
			if k.life.Err() != nil {
				k.st = status.New(codes.Unavailable, "the server is about to stop")
			} else if !errors.Is(err, io.EOF) {
				k.st = status.Convert(err)
			}
			k.stream.SetTrailer(k.fromNode(from.Trailer()))
			return size, nil
		}
		if err := k.deliver(message); err != nil {
			return size, context.Canceled // the client has left
		}
		size += len(message)
	}
}
