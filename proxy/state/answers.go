package state

import (
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/node"
)

// Parts of the result of abci_query that holds a value at a height.
const (
	beforeValue  = `"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"`
	beforeHeight = `","proofOps":null,"height":"`
	afterHeight  = `","codespace":""}}`
)

// AppendValue appends the result member of an RPC response that holds a value at a height.
func AppendValue(b, value []byte, height int64) []byte {
	b = slices.Grow(b, len(beforeValue+beforeHeight+afterHeight)+base64.StdEncoding.EncodedLen(len(value))+len("9223372036854775807"))
	b = base64.StdEncoding.AppendEncode(append(b, beforeValue...), value)
	b = strconv.AppendInt(append(b, beforeHeight...), height, 10)
	return append(b, afterHeight...)
}

// valueOf returns the value in a result of abci_query. ok is false if AppendValue could not make the same
// result of it again, because it holds more than the value.
func valueOf(member []byte, height int64) (value []byte, ok bool) {
	const result = len(`"result":`)
	value, err := base64.StdEncoding.DecodeString(gjson.GetBytes(member[min(result, len(member)):], "response.value").String())
	return value, err == nil && string(AppendValue(nil, value, height)) == string(member)
}

// ETag returns the validator of a member made of an entry. It includes the height, because the member does.
func ETag(e *cache.Entry, height int64) string {
	if e.Type != node.MessageType {
		return e.ETag
	}
	return e.ETag[:len(e.ETag)-1] + "-" + strconv.FormatInt(height, 10) + `"`
}
