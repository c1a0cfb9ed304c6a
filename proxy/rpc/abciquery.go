package rpc

import (
	"encoding/hex"
	"regexp"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/state"
)

// A store gives the value of a key. What abci_query takes besides that and package state's methods
// ignores the height, and some of it repeats the height that it was asked for.
var storePath = regexp.MustCompile(`^/store/[A-Za-z0-9_-]+/key$`)

// classOf says what may be kept of the answers to a path of abci_query.
func classOf(path string) blocks.Class {
	switch {
	case state.Tells(path), storePath.MatchString(path):
		return blocks.Live
	case state.Finds(path):
		return blocks.Found
	default:
		return blocks.Never
	}
}

// value is the query for a value of the state, which the parameters ask for at a height, 0 for
// none.
func (k *asking) value(path string, height int64) *blocks.Query {
	k.made = true
	return k.values.Query(state.Request{Method: path, Message: k.message()}, k.pinned(height))
}

// message is what a path is asked with.
func (k *asking) message() []byte {
	message, _ := hex.DecodeString(unquoted(k.a.of(k.m, "data"))) // it was read
	return message
}
