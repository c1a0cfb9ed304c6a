package upstream

import "time"

// An Agreement is what the replicas of one cache know of a chain that may be reset.
type Agreement struct {
	Epoch     int64            // in force
	Anchors   map[int64]string // hashes of some of its blocks, by height
	Confirmed time.Duration    // since a replica last confirmed the highest anchor
}
