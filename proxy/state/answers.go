package state

import (
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// The result of abci_query that has a value at a height.
const (
	beforeValue  = `"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"`
	beforeHeight = `","proofOps":null,"height":"`
	afterHeight  = `","codespace":""}}`
)

// AppendValue appends the member of the RPC's answer that has a value at a height: an entry of
// [node.MessageType] is the value, another what the RPC has said in its place.
func AppendValue(b, value []byte, height int64) []byte {
	b = slices.Grow(b, len(beforeValue+beforeHeight+afterHeight)+base64.StdEncoding.EncodedLen(len(value))+len("9223372036854775807"))
	b = base64.StdEncoding.AppendEncode(append(b, beforeValue...), value)
	b = strconv.AppendInt(append(b, beforeHeight...), height, 10)
	return append(b, afterHeight...)
}

// valueOf is the value that a result of abci_query has and nothing else: the result can be made
// of it again.
func valueOf(member []byte, height int64) (value []byte, ok bool) {
	const result = len(`"result":`)
	value, err := base64.StdEncoding.DecodeString(gjson.GetBytes(member[min(result, len(member)):], "response.value").String())
	return value, err == nil && string(AppendValue(nil, value, height)) == string(member)
}

// ETag is the validator of a member that was made of an entry. The height is in it, as it is in
// the member.
func ETag(e *cache.Entry, height int64) string {
	if e.Type != node.MessageType {
		return e.ETag
	}
	return e.ETag[:len(e.ETag)-1] + "-" + strconv.FormatInt(height, 10) + `"`
}
