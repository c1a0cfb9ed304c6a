package rpc

import (
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
)

// A service named Query answers of the state, and a store gives the value of a key. All else
// that abci_query takes ignores the height, and some of it repeats the height that it was asked for.
var statePath = regexp.MustCompile(`^/([A-Za-z0-9_]+\.)+Query/[A-Za-z0-9_]+$|^/store/[A-Za-z0-9_-]+/key$`)

// classOf says what may be kept of the answers to a path of abci_query.
func classOf(path string) blocks.Class {
	switch {
	case statePath.MatchString(path):
		return blocks.Live
	case strings.HasSuffix(path, ".tx.v1beta1.Service/GetTx"):
		return blocks.Found
	default:
		return blocks.Never
	}
}
