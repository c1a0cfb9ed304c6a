package devnet

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// The pace of the execution chain's history.
const (
	firstAsset         = 1000 // block of the first registration
	blocksPerAsset     = 2    // on average
	assetsPerNewcomer  = 46   // registrations per new collection
	historyBeforeStart = 400 * 24 * time.Hour
)

// A ledger is the history of the execution chain. All of it follows from the numbers of the registrations, so any range
// of blocks can be read alone, and nothing is stored.
//
// Registrations come at a steady pace. Each may be followed by licenses and by a dispute some blocks later. All
// collections exist at the start; afterwards they only grow.
type ledger struct {
	seed     uint64
	count    int // number of collections
	started  time.Time
	interval time.Duration
}

func newLedger(o Options) ledger {
	l := ledger{seed: o.Seed, count: o.Collections, started: o.StartTime.UTC().Truncate(time.Second), interval: o.Interval}
	if l.interval < 0 { // blocks are made by Advance
		l.interval = 2 * time.Second
	}
	return l
}

// start returns the block of the execution chain at the start.
func (l ledger) start() int64 {
	return firstAsset + int64(l.count)*assetsPerNewcomer*blocksPerAsset
}

// time returns the time of a block, in whole seconds. It depends only on the number, because logs contain it. The
// history is spread over more than a year, however few its blocks are.
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
	digest     [32]byte // source of all that varies
}

func (l ledger) asset(number int64) asset {
	a := asset{number: number, digest: state.Digest(l.seed, "asset", number)}
	a.collection = l.choose(number, a.digest[:])
	return a
}

// assetBlock returns the block of a registration. Of three registrations, two share a block.
func assetBlock(number int64) int64 {
	return firstAsset + blocksPerAsset*(number-number%3/2)
}

// choose returns the collection of a registration. At regular intervals it is a new one. Most of the others belong to
// old collections.
func (l ledger) choose(number int64, d []byte) int {
	newcomer := number / assetsPerNewcomer
	if newcomer < int64(l.count) && number%assetsPerNewcomer == 0 {
		return int(newcomer)
	}
	exist := uint32(min(int64(l.count), newcomer+1)) //nolint:gosec // it is small
	return int(min(binary.BigEndian.Uint32(d)%exist, binary.BigEndian.Uint32(d[4:])%exist))
}

// happenings yields the transactions of a range of blocks, both ends included, in the order of the assets.
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

// counters are the counters that the kinds of happenings change.
var counters = map[string]func(c *collections.Collection) *int64{
	"registered": func(c *collections.Collection) *int64 { return &c.AssetCount },
	"licensed":   func(c *collections.Collection) *int64 { return &c.LicensesCount },
	"raised":     func(c *collections.Collection) *int64 { return &c.RaisedDisputeCount },
	"judged":     func(c *collections.Collection) *int64 { return &c.JudgedDisputeCount },
	"cancelled":  func(c *collections.Collection) *int64 { return &c.CancelledDisputeCount },
	"resolved":   func(c *collections.Collection) *int64 { return &c.ResolvedDisputeCount },
}

// Collections yields the collections that exist at the start.
func (d *Devnet) Collections() iter.Seq[collections.Collection] {
	return d.CollectionsAt(d.EVMStart())
}

// CollectionsAt yields the collections that exist after a block of the execution chain, with the counters that its logs
// add up to.
func (d *Devnet) CollectionsAt(block int64) iter.Seq[collections.Collection] {
	l := newLedger(d.options)
	counted := make([]collections.Collection, l.count)
	for h := range l.happenings(0, block) {
		c, at := &counted[h.collection], l.time(h.block)
		if *counters[h.kind](c) += h.amount(); c.CreatedAt.IsZero() {
			c.CreatedAt = at // the first registration: assets are in order
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

// firstCollection is the default time of the first registration.
var firstCollection = time.Date(2025, 2, 13, 8, 0, 0, 0, time.UTC)
