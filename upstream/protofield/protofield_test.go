package protofield_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/protofield"
)

func TestMalformedMessageIsReadUpToItsError(t *testing.T) {
	message := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 300)
	message = protowire.AppendString(protowire.AppendTag(message, 1, protowire.BytesType), "first")
	message = protowire.AppendFixed32(protowire.AppendTag(message, 3, protowire.Fixed32Type), 7)
	message = protowire.AppendString(protowire.AppendTag(message, 1, protowire.BytesType), "second")
	const all = `2 300 "", 1 0 "first", 3 0 "", 1 0 "second", `
	for after, want := range map[string]string{
		"":         all,
		"\x80":     all + "error", // truncated tag
		"\x0a\x05": all + "error", // missing bytes
		"\x07":     all + "error", // unknown wire type
	} {
		got := ""
		for f, ok := range protofield.All(append(message[:len(message):len(message)], after...)) {
			if !ok {
				got += "error"
				continue
			}
			got += fmt.Sprintf("%d %d %q, ", f.Number, f.Varint(), f.Bytes())
		}
		expect.Equal(t, got, want, "fields of a message that ends with %q", after)
	}
	expect.Equal(t, string(protofield.Bytes(message, 1)), "first", "Bytes of field 1")
	if value := protofield.Bytes(message, 2); value != nil {
		t.Errorf("Bytes of a number = %q, want nil", value)
	}
}

func TestAppendOmitsZeroValues(t *testing.T) {
	got := protofield.Append(nil, 1, 1, 2, 0, 3, "", 4, "a", 5, false, 6, true, 7, []byte{}, 8, int64(-1), 9, uint64(2))
	want := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	want = protowire.AppendString(protowire.AppendTag(want, 4, protowire.BytesType), "a")
	want = protowire.AppendVarint(protowire.AppendTag(want, 6, protowire.VarintType), 1)
	want = protowire.AppendBytes(protowire.AppendTag(want, 7, protowire.BytesType), nil)
	want = protowire.AppendVarint(protowire.AppendTag(want, 8, protowire.VarintType), 1<<64-1)
	want = protowire.AppendVarint(protowire.AppendTag(want, 9, protowire.VarintType), 2)
	if string(got) != string(want) {
		t.Errorf("message = %x, want %x", got, want)
	}
}
