// Package protofield reads and writes messages of Protocol Buffers without their schemas.
package protofield

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Field is one of a message, with its value as it is encoded.
type Field struct {
	Number protowire.Number
	Type   protowire.Type
	value  []byte
}

// Bytes is the value of a text, of bytes or of a message, which is not copied; nil for any other.
func (f *Field) Bytes() []byte {
	if f.Type != protowire.BytesType {
		return nil
	}
	value, _ := protowire.ConsumeBytes(f.value) // it was passed over
	return value
}

// Varint is the value of a whole number or of a bool; 0 for any other.
func (f *Field) Varint() uint64 {
	if f.Type != protowire.VarintType {
		return 0
	}
	value, _ := protowire.ConsumeVarint(f.value)
	return value
}

// All are the fields of a message, in order. They end where the rest is no message: the last is not
// ok then, has the number 0, which no field has, and no value.
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

// Bytes is the value of the first field of a number that has bytes. It is not ok for none.
func Bytes(message []byte, number protowire.Number) (value []byte, ok bool) {
	for f := range All(message) {
		if f.Number == number && f.Type == protowire.BytesType {
			return f.Bytes(), true
		}
	}
	return nil, false
}

// Append appends fields to a message, of pairs of numbers and values. Those that are zero are left
// out, except for bytes and messages that are empty.
func Append(b []byte, pairs ...any) []byte {
	for pair := range slices.Chunk(pairs, 2) {
		number := protowire.Number(pair[0].(int)) //nolint:forcetypeassert // all are
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
			n = uint64(value) //nolint:gosec // as the format has it
		case uint64:
			n = value
		}
		if n > 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
		}
	}
	return b
}
