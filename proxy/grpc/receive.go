package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/failure"
)

// transport is the library's stream below a [grpc.ServerStream]. RecvMsg would receive and decompress a whole
// message of up to 10 MiB before its bytes could be counted here.
type transport interface {
	ReadMessageHeader(p []byte) error        // fills p and frees the frames that it has read
	RecvCompress() string                    // grpc-encoding
	WriteStatus(status *status.Status) error // ends the stream and a pending read
}

const (
	small     = 1 << 10  // maximum message that needs no reservation, in bytes
	piece     = 16 << 10 // bytes read at once; in addition, the library holds at most its window
	inflating = 64 << 10 // memory to decompress a message, in addition to the message
)

type receiver struct {
	from transport
	most int64           // maximum message, in bytes
	head [frameHead]byte // of the next message
	has  bool            // head has been read
}

// begin reads the head of the next message. It returns io.EOF if there is none.
func (r *receiver) begin() error {
	if !r.has {
		if err := r.from.ReadMessageHeader(r.head[:]); err != nil {
			return receiveError(err)
		}
		r.has = true
	}
	size, encoded := r.size(), r.from.RecvCompress()
	switch {
	case size > r.most:
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, r.most)
	case r.head[0] > compressed:
		return unexpectedFormat(r.head[0])
	case r.head[0] == compressed && (encoded == "" || encoded == encoding.Identity):
		return status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	return nil
}

// unexpectedFormat returns the status of a call whose message begins with an unknown flag.
func unexpectedFormat(flag byte) error {
	return status.Errorf(codes.Internal, "grpc: received unexpected payload format %d", flag)
}

func (r *receiver) size() int64 { return int64(binary.BigEndian.Uint32(r.head[1:])) }

// next reads the next message. Unless it is small, hold is called to reserve memory, and the caller must release held. If
// hold is nil, next reads only a small message, and otherwise returns nil.
func (r *receiver) next(hold func() *conn.RequestBody) (message []byte, held *conn.RequestBody, err error) {
	if err = r.begin(); err != nil {
		return nil, nil, err
	}
	switch {
	case r.size() <= small && r.head[0] != compressed:
		r.has = false
		message = make([]byte, r.size())
		if err = r.from.ReadMessageHeader(message); err != nil {
			return nil, nil, receiveError(truncated(err))
		}
		return message, nil, nil
	case hold == nil:
		return nil, nil, nil
	}
	held = hold()
	if message, err = r.readLarge(held); err != nil {
		held.Release()
		return nil, nil, err
	}
	return message, held, nil
}

// readLarge reads and decompresses a message into reserved memory, after begin.
func (r *receiver) readLarge(held *conn.RequestBody) (message []byte, err error) {
	r.has = false
	body := &bodyReader{from: r.from, left: r.size()}
	if r.head[0] != compressed {
		message, err = held.ReadAll(body, body.left)
	} else {
		message, err = inflate(body, held, r.most)
	}
	if body.err != nil {
		err = receiveError(body.err)
	}
	return message, err
}

// discard reads what a client sends after the only message, until the stream ends. Otherwise the library would hold it
// that long. Nodes ignore it too.
func (r *receiver) discard() {
	p := make([]byte, small)
	for r.from.ReadMessageHeader(p) == nil {
		continue
	}
}

type bodyReader struct {
	from transport
	left int64
	err  error // of the stream
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), b.left, piece)
	if b.err = truncated(b.from.ReadMessageHeader(p[:n])); b.err != nil {
		return 0, b.err
	}
	b.left -= n
	return int(n), nil
}

var inflaters = sync.Pool{New: func() any { return new(gzip.Reader) }}

// inflate decompresses a message. The library refuses encodings other than gzip. The first piece must arrive before memory
// for the decompression is reserved, so that the head of a message alone reserves almost none.
func inflate(from io.Reader, held *conn.RequestBody, most int64) ([]byte, error) {
	first, err := held.ReadAll(io.LimitReader(from, piece), piece)
	if err == nil {
		err = held.Take(inflating)
	}
	if err != nil {
		return nil, err
	}
	z := inflaters.Get().(*gzip.Reader) //nolint:forcetypeassert // the pool contains nothing else
	defer inflaters.Put(z)
	err = z.Reset(io.MultiReader(bytes.NewReader(first), from))
	var message []byte
	if err == nil {
		message, err = held.ReadAll(io.LimitReader(z, most+1), most+1)
	}
	switch {
	case err == nil && int64(len(message)) > most:
		return nil, status.Errorf(codes.ResourceExhausted, "grpc: received message after decompression larger than max %d", most)
	case err == nil || errors.As(err, new(*failure.Failure)):
		return message, err
	}
	return nil, status.Errorf(codes.Internal, "grpc: failed to decompress the message: %v", err)
}

// truncated returns the error of a stream that ended within a message.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// receiveError converts an error of a stream to the status that the library would return.
func receiveError(err error) error {
	if _, ok := status.FromError(err); ok || errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
	}
	return status.FromContextError(context.Canceled).Err() // the connection is gone
}

// errLate is the status of a call whose message has not arrived in time.
var errLate = status.New(codes.DeadlineExceeded, "the message has not arrived in time")

// receiveTimeout ends a call that takes too long to receive. Nothing else ends a read before the handler returns,
// except a context per call, which would cost 5 % of a call.
type receiveTimeout struct {
	timer *time.Timer
	from  transport
}

// timeouts are reused to avoid creating a timer per call.
var timeouts = sync.Pool{New: func() any {
	g := &receiveTimeout{}
	g.timer = time.AfterFunc(time.Hour, func() { _ = g.from.WriteStatus(errLate) }) // fails only if the client has disconnected
	g.timer.Stop()
	return g
}}

// timeoutAt returns a receiveTimeout that ends a call at a time.
func timeoutAt(at time.Time, from transport) *receiveTimeout {
	g := timeouts.Get().(*receiveTimeout) //nolint:forcetypeassert // the pool contains nothing else
	g.from = from
	g.timer.Reset(time.Until(at))
	return g
}

// release stops the timeout. It returns err, or the status of the timeout if that has ended the call.
func (g *receiveTimeout) release(err error) error {
	if g.timer.Stop() { // otherwise it has fired
		g.from = nil
		timeouts.Put(g)
	} else if err != nil {
		return errLate.Err()
	}
	return err
}
