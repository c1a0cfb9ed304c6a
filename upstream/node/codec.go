package node

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// Bytes is the codec of gRPC whose messages are *[]byte, and the *Large that are sent.
type Bytes struct{}

// A Large is a message of more than a kilobyte whose sender is told, by Done, when it has left for
// the client or never will.
type Large struct {
	Bytes []byte
	Done  func()
}

// Get is not called: mem.BufferPool has it.
func (*Large) Get(int) *[]byte { return nil }

// Put is called once the message is not in use any more.
func (l *Large) Put(*[]byte) { l.Done() }

// Marshal gives the bytes as they are. They must not change while they are sent.
func (Bytes) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *[]byte:
		return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
	case *Large:
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
