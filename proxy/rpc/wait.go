package rpc

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/web"
)

// waitParameter makes a call wait until a node finds its transaction. It is for this server only.
const waitParameter = "wait"

// maxWaitParams is the maximum length of parameters in which waitParameter is recognized, in bytes. Decoded parameters take
// many times their length.
const maxWaitParams = 4 << 10

// takeWait removes waitParameter from the parameters of a call, and returns its value.
func takeWait(params json.RawMessage) (wait []string, rest json.RawMessage) {
	var members map[string]json.RawMessage
	if len(params) > maxWaitParams || !bytes.Contains(params, []byte(`"`+waitParameter+`"`)) || json.Unmarshal(params, &members) != nil || members[waitParameter] == nil {
		return nil, params
	}
	value := string(members[waitParameter])
	if s := unquoted(members[waitParameter]); s != "" {
		value = s
	}
	delete(members, waitParameter)
	rest, _ = json.Marshal(members) // was JSON before
	return []string{value}, rest
}

// refuseWait refuses a call with waitParameter, because other calls of the client would wait for it. k may be nil.
func refuseWait(k *pendingCall) *pendingCall {
	if k == nil || k.wait == nil {
		return k
	}
	return &pendingCall{member: jsonrpc.Error(jsonrpc.InvalidParams, "wait is accepted in a single call by POST or GET; over a WebSocket, subscribe to the transaction")}
}

// await waits until a node finds the transaction of a call that has waitParameter.
func (k *pendingCall) await(r *web.Request) error {
	if k.wait == nil || k.call.isRaw() { // the node explains why it cannot read the parameters
		return nil
	}
	for i, value := range k.wait { // texts in a URI may be quoted
		k.wait[i] = strings.Trim(value, `"`)
	}
	feed := func(r *web.Request) (web.Feed, error) { return k.call.d.reader.Feed(r, k.call.makeQuery()) }
	return k.call.d.o.AwaitItem(r, feed, k.call.m.name, k.wait)
}
