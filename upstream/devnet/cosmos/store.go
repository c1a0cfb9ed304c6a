package cosmos

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// stores are the modules whose stores abci_query can read.
var stores = []string{"acc", "bank", "staking", "wasm"}

var storePath = regexp.MustCompile(`^/store/([^/]*)(.*)$`)

// IsStorePath reports whether a path of abci_query reads a store directly.
func IsStorePath(path string) bool { return storePath.MatchString(path) }

// QueryStore reads a store at a height, as abci_query does. Height 0 means the newest. A pruned or future height looks
// like a missing key, except for the log.
func (c *Chain) QueryStore(n state.View, path string, data []byte, height int64) Answer {
	now, parts := n.Now(), storePath.FindStringSubmatch(path)
	if height == 0 {
		height = now.Height
	}
	switch {
	case !slices.Contains(stores, parts[1]):
		return Answer{Code: 6, Codespace: "sdk", Log: fmt.Sprintf("no such store: %s: unknown request", parts[1])}
	case parts[2] != "/key":
		return Answer{Code: 6, Codespace: "sdk", Log: fmt.Sprintf("unexpected query path: %v: unknown request", parts[2])}
	case height > now.Height || height < now.Oldest:
		return Answer{Log: "version does not exist", Height: height}
	}
	sum := state.Digest(c.Seed, path+hex.EncodeToString(data), height+1000*n.Forks(height))
	return Answer{Value: sum[:], Height: height}
}
