package devnet

import "google.golang.org/protobuf/encoding/protowire"

// transaction is the only one of a block. In the dialect of Story it carries a
// block of the execution client, as MsgExecutionPayload does: of its fields, the
// hash and the number.
func (c *chain) transaction(h int64) []byte {
	hash := c.hash("transaction", h)
	if c.cosmos != nil {
		return hash
	}
	payload := bytesField(nil, 1, hash)
	payload = protowire.AppendVarint(protowire.AppendTag(payload, 7, protowire.VarintType), uint64(max(0, c.evmStart+h-c.first))) //nolint:gosec // not negative
	message := bytesField(bytesField(nil, 1, []byte("story1v9nlyfvy3r3l2nrhxmhuxwxk2e2yqpfhnzpcvy")), 4, payload)
	wrapped := bytesField(bytesField(nil, 1, []byte("/story.evmengine.v1.types.MsgExecutionPayload")), 2, message)
	return bytesField(nil, 1, bytesField(nil, 1, wrapped))
}

func bytesField(b []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
}
