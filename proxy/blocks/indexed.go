package blocks

import (
	"time"

	"github.com/tipcache/tipcache/upstream/node"
)

// The index of a node is up to so late behind a block, and what is read of it until then is kept
// for so long.
const (
	indexed   = 500 * time.Millisecond
	unsettled = 50 * time.Millisecond
)

// IndexedExpiry bounds the life of an answer that a node's index feeds, such as a transaction or a
// search, on top of its policy; zero does not. final says that what is found stays as it is.
func IndexedExpiry(found, final bool, now time.Time, tip node.Tip) time.Time {
	switch {
	case found && final:
		return time.Time{}
	case now.Sub(tip.Seen) < indexed:
		return now.Add(unsettled)
	case !found:
		return now.Add(tip.Interval)
	default:
		return time.Time{}
	}
}
