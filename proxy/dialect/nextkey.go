package dialect

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"
)

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
