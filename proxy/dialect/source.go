package dialect

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/node"
)

// BrokenLife is the life of an answer by which the node says that it failed, whose
// fault ever that is: long enough to spare it a stampede.
const BrokenLife = time.Second

// Source digests the answer of a node. Nothing holds beyond the short life of one by
// which the node says that it failed, or that it does not have the height.
func Source(seed maphash.Seed, a *node.Answer) uint64 {
	switch a.Reason {
	case node.Other, node.Rejected, node.Pruned, node.FutureHeight:
		return 0
	default:
		return maphash.Bytes(seed, a.Body)
	}
}

// NextKeyPath is where a list of the node has its next page key. The documented shape has it
// in its msg.
const NextKeyPath = "pagination.next_key"

// NextKey finds the text of the next page key at a path in a body.
func NextKey(body []byte, path string) (found gjson.Result) {
	if bytes.Contains(body, []byte(`"next_key"`)) {
		found = gjson.GetBytes(body, path)
	}
	if found.Type != gjson.String {
		return gjson.Result{}
	}
	return found
}

// WithoutNextKey is a body without the text of its next page key: that moves with the
// blocks while the page stays. A page that becomes the last one, or ceases to be it, says
// another thing.
func WithoutNextKey(body []byte) []byte {
	for _, path := range [...]string{"msg." + NextKeyPath, NextKeyPath} {
		if key := NextKey(body, path); key.Index > 0 {
			return slices.Concat(body[:key.Index], body[key.Index+len(key.Raw):])
		}
	}
	return body
}
