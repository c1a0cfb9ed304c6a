package cache

import (
	"context"
	"time"
)

// Shared is the store that replicas share; package cache/redis implements it. Requests do not depend on it:
// each method ends within a few of the store's timeouts, and unreadable data is absent. Entries of one namespace are
// never returned for another. All methods may be called concurrently.
type Shared interface {
	// Load returns the entries of the keys that have one. There is at least one key. After an error it returns those read before.
	Load(ctx context.Context, namespace string, keys ...string) (map[string]*Entry, error)

	// Read is Load for one key; nil means no entry.
	Read(ctx context.Context, namespace, key string) (*Entry, error)

	// Save stores or replaces entries for the duration keep. It does not notify other replicas.
	Save(ctx context.Context, namespace string, entries map[string]*Entry, keep time.Duration)

	// NewLease returns a lease of a key, not acquired yet. Its Publish also replaces newer entries above maxHeight, if not 0.
	// A lease for a read ahead does not hurry the replica that holds it.
	NewLease(namespace, key string, maxHeight int64, ahead bool) Lease

	// Subscribe passes the messages of other replicas to s until ctx ends.
	Subscribe(ctx context.Context, namespace string, s Subscriber)

	// State returns the state of the store's breaker: "closed", "half-open" or "open".
	State() string

	// Inspect looks at a key without side effects.
	Inspect(ctx context.Context, namespace, key string) (SharedRecord, error)

	// Purge removes the selected entries of the namespaces and returns how many were removed, even if it fails half-way.
	Purge(ctx context.Context, sel Selection, namespaces ...string) (int, error)

	// AnnouncePurge makes all subscribers purge their memories.
	AnnouncePurge(ctx context.Context, namespace string, sel Selection) error
}

// Subscriber receives the messages of other replicas. Its methods do not block.
type Subscriber interface {
	// Notify reports that the replica with the lease of a key has released it without storing an entry, and whether to
	// read the shared store again.
	Notify(key string, again bool)

	// Renewed reports that it has stored an entry.
	Renewed(key string, renewal Renewal)

	// NotifyAll makes all flights read again, because messages may have been lost.
	NotifyAll()

	// Purge removes the selected entries from memory and returns their number.
	Purge(sel Selection) int
}

// SharedRecord is what the shared store has of a key.
type SharedRecord struct {
	Entry  *Entry        // nil for none
	Expiry time.Duration // until the store drops the entry
	Lease  time.Duration // remaining time of the lease of a replica that reads the origin; 0 for none
}

// Lease is the right of one replica to read the origin for a key. One flight uses it and finally calls Publish or
// Abandon, even if their ctx has ended.
type Lease interface {
	// Acquire acquires the lease if no other replica has it and the store still has the entry that the caller
	// judged too old (judged; nil if the caller knows of none). Any other entry is returned for the caller to judge.
	Acquire(ctx context.Context, judged *Entry) (LeaseReply, error)

	// Keep renews a granted lease until it is released, or ctx ends.
	Keep(ctx context.Context)

	// Publish stores the origin's entry for the duration keep, releases the lease and wakes the waiting replicas.
	// After an error these wait until the lease expires.
	Publish(ctx context.Context, e *Entry, keep time.Duration) error

	// Abandon releases a lease that may have been granted. With again, waiting replicas request it again. Otherwise they read
	// the origin themselves, instead of failing one after another.
	Abandon(ctx context.Context, again bool) error
}

// LeaseReply is the shared store's reply to Acquire.
type LeaseReply struct {
	State LeaseState
	Entry *Entry        // the store's entry if State is LeaseChanged
	Left  time.Duration // remaining time of another replica's lease
}

// LeaseState says what a flight does next.
type LeaseState int

// States of a lease, for the replica that requests it.
const (
	LeaseBusy    LeaseState = iota + 1 // another replica is reading the origin
	LeaseGranted                       // this flight may read the origin
	LeaseChanged                       // the store has another entry than the one judged
)
