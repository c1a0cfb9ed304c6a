package state

import (
	"encoding/hex"
	"strings"

	"github.com/tipcache/tipcache/cache"
)

// Select selects the values that a method gives, by its name with its service; those of all methods
// for "".
func Select(method string) cache.Selection {
	if method == "" {
		return cache.Selection{Prefix: "state"}
	}
	return cache.Selection{Prefix: "state", Path: "*/" + strings.TrimPrefix(method, "/")}
}

// SelectNaming selects the values whose requests have a text, such as an address. A request of more
// than 256 bytes is not found.
func SelectNaming(text string) cache.Selection {
	return cache.Selection{Prefix: "state", Contains: hex.EncodeToString([]byte(text))}
}
