// Package protofield reads and writes messages of Protocol Buffers without their schemas.
package protofield

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Field is a field of a message with its encoded value.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	value  []byte
}

// Bytes returns the value of a string, bytes or message field without copying it, and nil for other fields.
func (f *Field) Bytes() []byte {
	if f.Type != protowire.BytesType {
		return nil
	}
	value, _ := protowire.ConsumeBytes(f.value) // All has checked it
	return value
}

// Varint returns the value of a varint field, such as an integer or a bool, and 0 for other fields.
func (f *Field) Varint() uint64 {
	if f.Type != protowire.VarintType {
		return 0
	}
	value, _ := protowire.ConsumeVarint(f.value)
	return value
}

// All returns the fields of a message in order. If the message is malformed, the sequence ends with a zero Field and
// false after its valid fields.
func All(message []byte) iter.Seq2[Field, bool] {
	return func(yield func(Field, bool) bool) {
		for len(message) > 0 {
			number, typ, n := protowire.ConsumeTag(message)
			if n < 0 {
				yield(Field{}, false)
				return
			}
			size := protowire.ConsumeFieldValue(number, typ, message[n:])
			if size < 0 {
				yield(Field{}, false)
				return
			}
			if !yield(Field{number, typ, message[n : n+size]}, true) {
				return
			}
			message = message[n+size:]
		}
	}
}

// Bytes returns the value of the first string, bytes or message field with a number, or nil if there is none.
func Bytes(message []byte, number protowire.Number) []byte {
	for f := range All(message) {
		if f.Number == number && f.Type == protowire.BytesType {
			return f.Bytes()
		}
	}
	return nil
}

// Append appends fields to a message. pairs holds the number of each field, an int, followed by its value. Zero values
// are omitted, except for an empty []byte.
func Append(b []byte, pairs ...any) []byte {
	for pair := range slices.Chunk(pairs, 2) {
		number := protowire.Number(pair[0].(int)) //nolint:forcetypeassert // numbers are ints
		var n uint64
		switch value := pair[1].(type) {
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
		case string:
			if value != "" {
				b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
			}
		case bool:
			n = protowire.EncodeBool(value)
		case int:
			n = uint64(value) //nolint:gosec // a count
		case int64:
			n = uint64(value) //nolint:gosec // the format encodes negative numbers so
		case uint64:
			n = value
		}
		if n > 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
		}
	}
	return b
}
