package devnet

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/devnet/state"
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
// collection has come into being; afterwards they only grow.
type ledger struct {
	seed     uint64
	count    int // of collections
	started  time.Time
	interval time.Duration
}

func newLedger(o Options) ledger {
	l := ledger{seed: o.Seed, count: o.Collections, started: o.StartTime.UTC().Truncate(time.Second), interval: o.Interval}
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
	a := asset{number: number, digest: state.Digest(l.seed, "asset", number)}
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
			for _, h := range l.asset(n).follow() {
				if from <= h.block && h.block <= to && !yield(h) {
					return
				}
			}
		}
	}
}

// counters are what the kinds of happenings add to.
var counters = map[string]func(c *collections.Collection) *int64{
	"registered": func(c *collections.Collection) *int64 { return &c.AssetCount },
	"licensed":   func(c *collections.Collection) *int64 { return &c.LicensesCount },
	"raised":     func(c *collections.Collection) *int64 { return &c.RaisedDisputeCount },
	"judged":     func(c *collections.Collection) *int64 { return &c.JudgedDisputeCount },
	"cancelled":  func(c *collections.Collection) *int64 { return &c.CancelledDisputeCount },
	"resolved":   func(c *collections.Collection) *int64 { return &c.ResolvedDisputeCount },
}

// Collections yields the collections that exist at the start: those of the seed.
func (d *Devnet) Collections() iter.Seq[collections.Collection] {
	return d.CollectionsAt(d.EVMStart())
}

// CollectionsAt yields the collections that exist after a block of the execution
// chain. They are what counting the logs up to that block comes to.
func (d *Devnet) CollectionsAt(block int64) iter.Seq[collections.Collection] {
	l := newLedger(d.options)
	counted := make([]collections.Collection, l.count)
	for h := range l.happenings(0, block) {
		c, at := &counted[h.collection], l.time(h.block)
		if *counters[h.kind](c) += h.amount(); c.CreatedAt.IsZero() {
			c.CreatedAt = at // the first registration: assets come in order
		}
		if at.After(c.UpdatedAt) {
			c.UpdatedAt = at
		}
	}
	for i := range counted {
		counted[i].Address = capitals(collectionAddress(l.seed, i))
	}
	return slices.Values(slices.DeleteFunc(counted, func(c collections.Collection) bool { return c.AssetCount == 0 }))
}

// firstCollection is when the history begins, unless the start is set.
var firstCollection = time.Date(2025, 2, 13, 8, 0, 0, 0, time.UTC)
