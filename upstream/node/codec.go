package node

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// Bytes is the codec of gRPC whose messages are the *[]byte that are sent and received.
type Bytes struct{}

// Marshal gives the bytes as they are. They must not change while they are sent.
func (Bytes) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("node: a message is a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
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
