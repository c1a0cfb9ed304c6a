package node

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// Bytes is the codec of gRPC for messages that are *[]byte, or *Sent where the sender needs to know when a message
// has left.
type Bytes struct{}

// A Sent is a message. To.Sent is called once the message has left, or cannot leave any more.
type Sent struct {
	Bytes []byte
	To    interface{ Sent(message []byte) }
}

// Get is not called: mem.BufferPool has it.
func (*Sent) Get(int) *[]byte { return nil }

// Put is called once the message is not in use any more.
func (s *Sent) Put(*[]byte) { s.To.Sent(s.Bytes) }

// end follows a message that is too short for the library to say when it has left.
var end = make([]byte, 0, 2<<10)

// Marshal returns the bytes as they are. They must not change while they are sent.
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
		return nil, fmt.Errorf("node: a message is a %T", v)
	}
}

// Unmarshal gives a copy of the bytes.
func (Bytes) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("node: a message is a %T", v)
	}
	*b = data.Materialize()
	return nil
}

// Name is that of the encoding, which is the messages' own.
func (Bytes) Name() string { return "proto" }
