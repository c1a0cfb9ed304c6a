package indexer

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A count counts the events of a span by collection.
type count struct {
	ips      owners[ledger.Address]
	disputes owners[ledger.Hash]
	changes  map[ledger.Address]ledger.Change
	ignored  [kinds]int // number of events that belong to no collection
}

type owners[ID comparable] struct {
	known   map[ID]ledger.Address // ids of the span
	learned map[ID]ledger.Address // the known ones that may be missing in the store
}

func newOwners[ID comparable]() owners[ID] {
	return owners[ID]{map[ID]ledger.Address{}, map[ID]ledger.Address{}}
}

// learn records an owner from the chain, unless one is known.
func (o owners[ID]) learn(id ID, collection ledger.Address) {
	if _, known := o.known[id]; !known {
		o.known[id], o.learned[id] = collection, collection
	}
}

// takeUnknown removes the ids with a known owner from ids.
func (o owners[ID]) takeUnknown(ids []ID) []ID {
	return slices.DeleteFunc(ids, func(id ID) bool { _, known := o.known[id]; return known })
}

// tally counts a span's events. It finds an id's owner in the span's events, in the store, or on the chain. It finds the
// owners of IPs first, because disputes belong to IPs.
func (x *Indexer) tally(ctx context.Context, b *blocks) (t ledger.Tally, ignored [kinds]int, err error) {
	c := &count{ips: newOwners[ledger.Address](), disputes: newOwners[ledger.Hash](), changes: map[ledger.Address]ledger.Change{}}
	for i := range b.events {
		if e := &b.events[i]; e.Kind == Registered {
			c.ips.learn(e.IP, e.Collection)
		}
	}
	ips, disputes := c.wanted(b.events)
	if err := x.findIPs(ctx, c, ips, b.to); err != nil {
		return t, ignored, err
	}
	c.learnDisputes(b.events)
	if err := x.findDisputes(ctx, c, disputes, b.to); err != nil {
		return t, ignored, err
	}
	for i := range b.events {
		c.add(&b.events[i])
	}
	changes := slices.SortedFunc(maps.Values(c.changes), func(a, b ledger.Change) int { return bytes.Compare(a.Collection[:], b.Collection[:]) })
	learned := ledger.Owners{IPs: c.ips.learned, Disputes: c.disputes.learned}
	return ledger.Tally{Cursor: b.last, Changes: changes, Learned: learned}, c.ignored, nil
}

// wanted returns the ids whose owners are not in the span's events.
func (c *count) wanted(events []Event) (ips []ledger.Address, disputes []ledger.Hash) {
	wantedIPs := map[ledger.Address]bool{}
	wantedDisputes := map[ledger.Hash]bool{} // false for a dispute that begins in the span
	for i := range events {
		switch e := &events[i]; e.Kind {
		case Registered:
		case Raised, Tagged:
			wantedIPs[e.IP], wantedDisputes[e.Dispute] = true, false
		case Minted:
			wantedIPs[e.IP] = true
		default:
			if _, seen := wantedDisputes[e.Dispute]; !seen {
				wantedDisputes[e.Dispute] = true
			}
		}
	}
	for id, wanted := range wantedDisputes {
		if wanted {
			disputes = append(disputes, id)
		}
	}
	return slices.Collect(maps.Keys(wantedIPs)), disputes
}

// learnDisputes learns the owners of disputes that begin in the span. A dispute created by an infringement tag belongs to
// the collection of the IP that inherits the tag.
func (c *count) learnDisputes(events []Event) {
	for i := range events {
		e := &events[i]
		if collection, known := c.ips.known[e.IP]; known && (e.Kind == Raised || e.Kind == Tagged) {
			c.disputes.learn(e.Dispute, collection)
		}
	}
}

func (c *count) add(e *Event) {
	if e.Kind == Tagged {
		return // it creates a dispute that was not raised
	}
	collection, known := c.collection(e)
	if !known {
		c.ignored[e.Kind]++
		return
	}
	change, found := c.changes[collection]
	if !found {
		change = ledger.Change{Collection: collection, First: e.Time, Last: e.Time}
	}
	if e.Time.Before(change.First) {
		change.First = e.Time
	}
	if e.Time.After(change.Last) {
		change.Last = e.Time
	}
	switch e.Kind {
	case Registered:
		change.Assets++
	case Minted:
		change.Licenses = min(change.Licenses+e.Amount, ledger.MaxCount)
	case Raised:
		change.Raised++
	case Judged:
		change.Judged++
	case Cancelled:
		change.Cancelled++
	case Resolved:
		change.Resolved++
	}
	c.changes[collection] = change
}

func (c *count) collection(e *Event) (collection ledger.Address, known bool) {
	switch e.Kind {
	case Registered:
		return e.Collection, true
	case Minted, Raised:
		collection, known = c.ips.known[e.IP]
	default:
		collection, known = c.disputes.known[e.Dispute]
	}
	return collection, known
}
