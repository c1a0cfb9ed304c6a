package indexer

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/ledger"
)

// A count is the events of a span, by collection.
type count struct {
	owners  ledger.Owners // all that is known of the ids in the span
	learned ledger.Owners // what the store may not know of it
	changes map[ledger.Address]*ledger.Change
	ignored [kinds]int // events of ids that belong to no collection
}

// tally counts a span's events. An id's owner may be told by an event of the
// same span, by the store, or else by the chain.
func (x *Indexer) tally(ctx context.Context, b *blocks) (t ledger.Tally, ignored [kinds]int, err error) {
	c := &count{
		owners:  newOwners(),
		learned: newOwners(),
		changes: map[ledger.Address]*ledger.Change{},
	}
	for i := range b.events {
		if e := &b.events[i]; e.Kind == Registered {
			c.learnIP(e.IP, e.Collection)
		}
	}
	if err := x.findOwners(ctx, c, b); err != nil {
		return t, ignored, err
	}
	for i := range b.events {
		c.add(&b.events[i])
	}
	return ledger.Tally{Cursor: b.last, Changes: c.sorted(), Learned: c.learned}, c.ignored, nil
}

func newOwners() ledger.Owners {
	return ledger.Owners{IPs: map[ledger.Address]ledger.Address{}, Disputes: map[ledger.Hash]ledger.Address{}}
}

// learnIP notes an owner that the chain told of. The first one stays.
func (c *count) learnIP(ip, collection ledger.Address) {
	if _, known := c.owners.IPs[ip]; !known {
		c.owners.IPs[ip], c.learned.IPs[ip] = collection, collection
	}
}

func (c *count) learnDispute(id ledger.Hash, collection ledger.Address) {
	if _, known := c.owners.Disputes[id]; !known {
		c.owners.Disputes[id], c.learned.Disputes[id] = collection, collection
	}
}

// findOwners finds the owners of all ids in the span: of IPs first, since
// disputes belong to IPs.
func (x *Indexer) findOwners(ctx context.Context, c *count, b *blocks) error {
	ips, disputes := c.wanted(b.events)
	stored, err := x.o.Store.Owners(ctx, ips, disputes)
	if err != nil {
		return err
	}
	maps.Copy(c.owners.IPs, stored.IPs)
	maps.Copy(c.owners.Disputes, stored.Disputes)
	if err := x.resolveIPs(ctx, c, c.unknownIPs(ips), b.to); err != nil {
		return err
	}
	c.bornDisputes(b.events)
	return x.resolveDisputes(ctx, c, c.unknownDisputes(disputes), b.to)
}

// wanted returns the ids whose owners no event of the span tells.
func (c *count) wanted(events []Event) (ips []ledger.Address, disputes []ledger.Hash) {
	born := map[ledger.Hash]bool{}
	wantedIPs, wantedDisputes := map[ledger.Address]bool{}, map[ledger.Hash]bool{}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case Registered:
		case Raised, Tagged:
			born[e.Dispute] = true
			wantedIPs[e.IP] = true
		case Minted:
			wantedIPs[e.IP] = true
		default:
			wantedDisputes[e.Dispute] = true
		}
	}
	for ip := range wantedIPs {
		if _, known := c.owners.IPs[ip]; !known {
			ips = append(ips, ip)
		}
	}
	for id := range wantedDisputes {
		if !born[id] {
			disputes = append(disputes, id)
		}
	}
	return ips, disputes
}

// bornDisputes learns the disputes that began in the span. One born of an
// infringement tag belongs to the collection of the IP that inherits it.
func (c *count) bornDisputes(events []Event) {
	for i := range events {
		e := &events[i]
		if collection, known := c.owners.IPs[e.IP]; known && (e.Kind == Raised || e.Kind == Tagged) {
			c.learnDispute(e.Dispute, collection)
		}
	}
}

func (c *count) unknownIPs(ips []ledger.Address) []ledger.Address {
	return slices.DeleteFunc(ips, func(ip ledger.Address) bool { _, known := c.owners.IPs[ip]; return known })
}

func (c *count) unknownDisputes(ids []ledger.Hash) []ledger.Hash {
	return slices.DeleteFunc(ids, func(id ledger.Hash) bool { _, known := c.owners.Disputes[id]; return known })
}

// add counts one event.
func (c *count) add(e *Event) {
	if e.Kind == Tagged {
		return // it makes a dispute known and is not one that was raised
	}
	collection, known := c.collection(e)
	if !known {
		c.ignored[e.Kind]++
		return
	}
	change := c.change(collection, e.Time)
	switch e.Kind {
	case Registered:
		change.Assets++
	case Minted:
		change.Licenses = min(change.Licenses+e.Amount, maxAmount)
	case Raised:
		change.Raised++
	case Judged:
		change.Judged++
	case Cancelled:
		change.Cancelled++
	case Resolved:
		change.Resolved++
	}
}

func (c *count) collection(e *Event) (collection ledger.Address, known bool) {
	switch e.Kind {
	case Registered:
		return e.Collection, true
	case Minted, Raised:
		collection, known = c.owners.IPs[e.IP]
	default:
		collection, known = c.owners.Disputes[e.Dispute]
	}
	return collection, known
}

func (c *count) change(collection ledger.Address, at time.Time) *ledger.Change {
	change := c.changes[collection]
	if change == nil {
		change = &ledger.Change{Collection: collection, First: at, Last: at}
		c.changes[collection] = change
	}
	if at.Before(change.First) {
		change.First = at
	}
	if at.After(change.Last) {
		change.Last = at
	}
	return change
}

func (c *count) sorted() []ledger.Change {
	all := make([]ledger.Change, 0, len(c.changes))
	for _, change := range c.changes {
		all = append(all, *change)
	}
	slices.SortFunc(all, func(a, b ledger.Change) int { return bytes.Compare(a.Collection[:], b.Collection[:]) })
	return all
}
