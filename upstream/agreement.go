package upstream

import "time"

// An Agreement is the shared knowledge of a cache's replicas about a chain.
type Agreement struct {
	Epoch          int64            // current epoch
	Anchors        map[int64]string // hashes of some blocks of the epoch, by height
	SinceConfirmed time.Duration    // since a replica last confirmed the highest anchor
}
