package dialect

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"
)

// NextKeyPath is the path of the next page key in a node's list. In the documented shape it is within msg.
const NextKeyPath = "pagination.next_key"

// NextKey returns the next page key at a path in a body.
func NextKey(body []byte, path string) (found gjson.Result) {
	if bytes.Contains(body, []byte(`"next_key"`)) {
		found = gjson.GetBytes(body, path)
	}
	if found.Type != gjson.String {
		return gjson.Result{}
	}
	return found
}

// WithoutNextKey returns a body without the text of its next page key, which changes with the block while the page
// stays the same. A page that becomes the last one, or ceases to be it, is another page.
func WithoutNextKey(body []byte) []byte {
	for _, path := range [...]string{"msg." + NextKeyPath, NextKeyPath} {
		if key := NextKey(body, path); key.Index > 0 {
			return slices.Concat(body[:key.Index], body[key.Index+len(key.Raw):])
		}
	}
	return body
}
