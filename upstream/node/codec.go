package node

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// Bytes is a gRPC codec for encoded messages: *[]byte, or *Sent if the sender needs to know when a message was sent.
type Bytes struct{}

// A Sent is a message. To.Sent is called when the message was sent or has been dropped.
type Sent struct {
	Bytes []byte
	To    interface{ Sent(message []byte) }
}

// Get is not called. It implements mem.BufferPool.
func (*Sent) Get(int) *[]byte { return nil }

// Put is called when the message is no longer in use.
func (s *Sent) Put(*[]byte) { s.To.Sent(s.Bytes) }

// end is an empty buffer that follows a short message. The library calls Put only for buffers with a large capacity.
var end = make([]byte, 0, 2<<10)

// Marshal returns the bytes unchanged. The caller must not change them while they are sent.
func (Bytes) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *[]byte:
		return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
	case *Sent:
		if mem.IsBelowBufferPoolingThreshold(cap(m.Bytes)) {
			return mem.BufferSlice{mem.SliceBuffer(m.Bytes), mem.NewBuffer(&end, m)}, nil
		}
		return mem.BufferSlice{mem.NewBuffer(&m.Bytes, m)}, nil
	default:
		return nil, fmt.Errorf("node: unsupported message type %T", v)
	}
}

// Unmarshal stores a copy of the bytes.
func (Bytes) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("node: unsupported message type %T", v)
	}
	*b = data.Materialize()
	return nil
}

// Name returns the encoding of the messages.
func (Bytes) Name() string { return "proto" }
