package protofield_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/protofield"
)

func TestAMessageIsReadUpToWhereItIsNone(t *testing.T) {
	message := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 300)
	message = protowire.AppendString(protowire.AppendTag(message, 1, protowire.BytesType), "first")
	message = protowire.AppendFixed32(protowire.AppendTag(message, 3, protowire.Fixed32Type), 7)
	message = protowire.AppendString(protowire.AppendTag(message, 1, protowire.BytesType), "second")
	const all = `2 300 "", 1 0 "first", 3 0 "", 1 0 "second", `
	for after, want := range map[string]string{
		"":         all,
		"\x80":     all + "none", // half a tag
		"\x0a\x05": all + "none", // bytes that are missing
		"\x07":     all + "none", // no such type
	} {
		got := ""
		for f, ok := range protofield.All(append(message[:len(message):len(message)], after...)) {
			if !ok {
				got += "none"
				continue
			}
			got += fmt.Sprintf("%d %d %q, ", f.Number, f.Varint(), f.Bytes())
		}
		if got != want {
			t.Errorf("with %q: %s, want %s", after, got, want)
		}
	}
	if first, ok := protofield.Bytes(message, 1); !ok || string(first) != "first" {
		t.Errorf("%q %v is not the first of its number", first, ok)
	}
	if value, ok := protofield.Bytes(message, 2); ok {
		t.Errorf("a number is %q", value)
	}
}
