package cache

import (
	"context"
	"time"
)

// Shared is the store that replicas share. Package cache/redis has one. A cache
// never trusts it to be well: no method waits for an operation longer than the
// store's own timeout, none panics, and what cannot be read is absent. Entries
// of one namespace are never given for another. All methods may be called
// concurrently.
type Shared interface {
	// Load gives the entries of those keys that have one. An error says that the
	// store does not answer; what came before it is given all the same.
	Load(ctx context.Context, namespace string, keys ...string) (map[string]*Entry, error)

	// Read is Load for one key; nil is no entry.
	Read(ctx context.Context, namespace, key string) (*Entry, error)

	// Save keeps entries for as long as keep. What is newer there stays.
	Save(ctx context.Context, namespace string, entries map[string]*Entry, keep time.Duration)

	// NoteHot notes some of the keys that a replica uses most.
	NoteHot(ctx context.Context, namespace string, keys []HotKey) error

	// HotKeys gives at most n keys that were noted lately, the most used ones first.
	HotKeys(ctx context.Context, namespace string, n int) ([]string, error)

	// NewLease gives a lease of a key that no flight has acquired yet. The entry it
	// settles replaces one above the height most, however new that is; 0: there is
	// no such height.
	NewLease(namespace, key string, most int64) Lease

	// Subscribe hands the messages of other replicas to s until ctx ends.
	Subscribe(ctx context.Context, namespace string, s Subscriber)

	SharedAdmin
}

// Subscriber takes the messages of other replicas. Its methods do not block.
type Subscriber interface {
	// Notify tells the flight of a key that the replica which had the lease has
	// settled it, or given it up: whether to ask the shared store again.
	Notify(key string, again bool)

	// Renewed is Notify where the message says what was settled.
	Renewed(key string, renewal Renewal)

	// NotifyAll has all flights ask again: messages may have been lost.
	NotifyAll()

	// Purged removes the selected entries from memory.
	Purged(sel Selection)
}

// SharedAdmin is what operators ask of the shared store.
type SharedAdmin interface {
	// State is that of the store's breaker: "closed", "half-open" or "open".
	State() string

	// Inspect looks at a key without a trace.
	Inspect(ctx context.Context, namespace, key string) (SharedRecord, error)

	// Purge removes the selected entries and says how many there were, also when
	// it fails half-way.
	Purge(ctx context.Context, namespace string, sel Selection) (int, error)

	// AnnouncePurge has all subscribers purge their memories.
	AnnouncePurge(ctx context.Context, namespace string, sel Selection) error
}

// SharedRecord is what the shared store has of a key.
type SharedRecord struct {
	Entry  *Entry        // nil: none
	Expiry time.Duration // what is left until the store drops the entry
	Lease  time.Duration // what is left of the lease of the replica that asks the origin; 0: none does
}

// A Lease is the right of one replica to ask the origin for a key. One flight
// uses it, and calls either Publish or Abandon at its end. Both are due even when
// their ctx has ended.
type Lease interface {
	// Acquire takes the lease if no other replica has it, and if the store still has
	// the entry that the caller has judged and found too old, or none; judged is nil
	// where the caller knows of none. Any other entry is given, for the caller to judge;
	// the lease may be the caller's then, too.
	Acquire(ctx context.Context, judged *Entry) (LeaseReply, error)

	// Keep renews a granted lease until it is settled or abandoned, or ctx ends.
	Keep(ctx context.Context)

	// Publish stores what the origin gave for as long as keep, gives the lease back and
	// wakes the replicas that wait for it. After an error these wait until the lease
	// expires.
	Publish(ctx context.Context, e *Entry, keep time.Duration) error

	// Abandon gives back a lease that may have been granted. The replicas that
	// wait for it ask for it again, or the origin themselves, rather than fail one
	// after the other.
	Abandon(ctx context.Context, again bool) error
}

// LeaseReply is the shared store's reply to a flight.
type LeaseReply struct {
	State LeaseState
	Entry *Entry        // what the store has, where LeaseChanged says so
	Left  time.Duration // what is left of another replica's lease
}

// LeaseState says what a flight does next.
type LeaseState int

// The states of a lease, seen by the replica that asks for it.
const (
	LeaseBusy    LeaseState = iota + 1 // another replica is asking the origin
	LeaseGranted                       // the origin is this flight's to ask
	LeaseChanged                       // the store has another entry than the one that was judged
)
