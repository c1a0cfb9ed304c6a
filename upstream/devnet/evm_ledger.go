package devnet

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"
)

// How the history of the execution chain is paced.
const (
	firstAsset         = 1000 // block of the first registration
	blocksPerAsset     = 2    // on average
	assetsPerNewcomer  = 46   // registrations for every new collection
	historyBeforeStart = 400 * 24 * time.Hour
)

// A ledger is what happened in which block of the execution chain. All of it
// follows from the number of a registration, so any range of blocks can be read
// without what came before, and there is nothing to keep.
//
// Registrations come at a steady pace. Some blocks later each may be followed
// by licenses, and by a dispute with all that comes of it. At the start every
// collection has come into being; from then on they only grow.
type ledger struct {
	seed     uint64
	count    int // of collections
	home     uint64
	mask     uint64 // hides numbers in addresses and hashes
	started  time.Time
	interval time.Duration
}

func newLedger(o Options) ledger {
	mask := digest(o.Seed, "mask", 0)
	l := ledger{
		seed: o.Seed, count: o.Collections, home: o.EVMChainID, mask: binary.BigEndian.Uint64(mask[:]) >> 2,
		started: o.StartTime.UTC().Truncate(time.Second), interval: o.Interval,
	}
	if l.interval < 0 { // blocks come by hand
		l.interval = 2 * time.Second
	}
	return l
}

// start is the block of the execution chain that a devnet starts at.
func (l ledger) start() int64 {
	return firstAsset + int64(l.count)*assetsPerNewcomer*blocksPerAsset
}

// time is when a block was made, in whole seconds. Since it is in the logs, it
// depends on nothing but the number. The history is spread over more than a
// year, however few its blocks are.
func (l ledger) time(block int64) time.Time {
	since := block - l.start()
	if since < 0 {
		pace := int64(historyBeforeStart/time.Second) / l.start()
		return l.started.Add(time.Duration(since*pace) * time.Second)
	}
	return l.started.Add((time.Duration(since) * l.interval).Truncate(time.Second))
}

// An asset is one registration of an IP.
type asset struct {
	number     int64
	collection int
	digest     [32]byte // what happens to it
}

func (l ledger) asset(number int64) asset {
	a := asset{number: number, digest: digest(l.seed, "asset", int(number))}
	a.collection = l.choose(number, a.digest[:])
	return a
}

// assetBlock is the block of a registration. Of three, two share one.
func assetBlock(number int64) int64 {
	return firstAsset + blocksPerAsset*(number-number%3/2)
}

// choose says which collection a registration is in. At regular intervals it is
// a new one. Of the others, most go to those that are old.
func (l ledger) choose(number int64, d []byte) int {
	newcomer := number / assetsPerNewcomer
	if newcomer < int64(l.count) && number%assetsPerNewcomer == 0 {
		return int(newcomer)
	}
	exist := uint32(min(int64(l.count), newcomer+1)) //nolint:gosec // it is small
	return int(min(binary.BigEndian.Uint32(d)%exist, binary.BigEndian.Uint32(d[4:])%exist))
}

// happenings yields what happened from one block to another, both included. The
// order is that of the assets, and for each of them that of time.
func (l ledger) happenings(from, to int64) iter.Seq[happening] {
	return func(yield func(happening) bool) {
		if l.count == 0 || from > to {
			return
		}
		for n := max(0, from-firstAsset-disputedFor) / blocksPerAsset; assetBlock(n) <= to; n++ {
			if assetBlock(n) < from-licensedFor && !isDisputed(n) {
				continue
			}
			for _, h := range l.follow(l.asset(n)) {
				if from <= h.block && h.block <= to && !yield(h) {
					return
				}
			}
		}
	}
}

// collections are the collections that exist after a block: it counts what has happened.
func (l ledger) collections(block int64) []Collection {
	counted := make([]Collection, l.count)
	for h := range l.happenings(0, block) {
		if !h.isStray() && h.kind != tagged {
			counted[h.collection].count(h, l.time(h.block))
		}
	}
	for i := range counted {
		counted[i].CollectionAddress, counted[i].ChainID = collectionAddress(l.seed, i).checksum(), l.chainOf(i)
	}
	return slices.DeleteFunc(counted, func(c Collection) bool { return c.AssetCount == 0 })
}

// count takes one more event into the counters.
func (c *Collection) count(h happening, at time.Time) {
	counters := [...]*int64{
		registered: &c.AssetCount, licensed: &c.LicensesCount, disputed: &c.RaisedDisputeCount,
		judged: &c.JudgedDisputeCount, cancelled: &c.CancelledDisputeCount, resolved: &c.ResolvedDisputeCount, resolvedToo: &c.ResolvedDisputeCount,
	}
	*counters[h.kind] += h.amount()
	if c.CreatedAt.IsZero() {
		c.CreatedAt = at // the first registration: assets come in order
	}
	if at.After(c.UpdatedAt) {
		c.UpdatedAt = at
	}
}

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

// Collections yields the first n collections of a seed, as they are at the start of a
// devnet of that size.
func Collections(seed uint64, n int) iter.Seq[Collection] {
	l := newLedger(Options{Seed: seed, Collections: n}.withDefaults())
	return slices.Values(l.collections(l.start()))
}

// firstCollection is when the history begins, unless the start is set.
var firstCollection = time.Date(2025, 2, 13, 8, 0, 0, 0, time.UTC)
