package devnet

import (
	"iter"
	"slices"
	"time"
)

// A Collection is one collection, with the field names of the listing interface.
// The counters are cumulative.
type Collection struct {
	CollectionAddress     string    `json:"collectionAddress"` // checksummed
	AssetCount            int64     `json:"assetCount"`
	LicensesCount         int64     `json:"licensesCount"`
	RaisedDisputeCount    int64     `json:"raisedDisputeCount"`
	CancelledDisputeCount int64     `json:"cancelledDisputeCount"`
	JudgedDisputeCount    int64     `json:"judgedDisputeCount"`
	ResolvedDisputeCount  int64     `json:"resolvedDisputeCount"`
	CreatedAt             time.Time `json:"createdAt"`
	UpdatedAt             time.Time `json:"updatedAt"`

	ChainID uint64 `json:"-"` // of the chain its tokens are on; a few are on another
}

// Collections yields the collections that exist at the start: those of the seed.
func (d *Devnet) Collections() iter.Seq[Collection] { return d.CollectionsAt(d.EVMStart()) }

// CollectionsAt yields the collections that exist after a block of the execution
// chain. They are what counting the logs up to that block comes to.
func (d *Devnet) CollectionsAt(block int64) iter.Seq[Collection] {
	return slices.Values(newLedger(d.options).collections(block))
}

// Collections yields the first n collections of a seed, always the same ones, as
// they are at the start of a devnet of that size. The metadata provider of such
// a devnet knows most of them.
func Collections(seed uint64, n int) iter.Seq[Collection] {
	l := newLedger(Options{Seed: seed, Collections: n}.withDefaults())
	return slices.Values(l.collections(l.start()))
}

// firstCollection is when the history begins, unless the start is set.
var firstCollection = time.Date(2025, 2, 13, 8, 0, 0, 0, time.UTC)
