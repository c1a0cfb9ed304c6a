package devnet

import (
	"encoding/binary"
	"iter"
	"time"
)

// A Collection is one seeded collection, with the field names of the listing
// interface. The counters are cumulative.
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
}

// Collections yields the collections that exist: the first n of the seed.
func (d *Devnet) Collections() iter.Seq[Collection] {
	return Collections(d.options.Seed, d.options.Collections)
}

// Collections yields the first n collections of a seed, always the same ones.
// The metadata provider of a devnet with that seed knows most of them.
func Collections(seed uint64, n int) iter.Seq[Collection] {
	return func(yield func(Collection) bool) {
		for i := range n {
			if !yield(collection(seed, i)) {
				return
			}
		}
	}
}

// collection derives everything from one digest. Few collections are large,
// and disputes are rare, as it is on a real chain.
func collection(seed uint64, i int) Collection {
	d := digest(seed, "collection", i)
	number := func(at int, below uint64) int64 { return int64(binary.BigEndian.Uint64(d[at:]) % below) }
	assets := 1 + number(0, 40)
	if d[31]%16 == 0 {
		assets *= 1 + number(3, 5000)
	}
	created := firstCollection.Add(time.Duration(number(8, uint64(400*24*time.Hour))))
	c := Collection{
		CollectionAddress: addressOf(d[12:]).checksum(),
		AssetCount:        assets,
		LicensesCount:     assets * number(5, 5),
		CreatedAt:         created.Truncate(time.Second),
		UpdatedAt:         created.Add(time.Duration(number(16, uint64(90*24*time.Hour)))).Truncate(time.Second),
	}
	if d[30]%32 == 0 {
		c.RaisedDisputeCount = 2 + number(20, 9)
		c.CancelledDisputeCount, c.JudgedDisputeCount = c.RaisedDisputeCount/3, c.RaisedDisputeCount/2
		c.ResolvedDisputeCount = c.JudgedDisputeCount / 2
	}
	return c
}

var firstCollection = time.Date(2025, 2, 13, 8, 0, 0, 0, time.UTC)
