// Package cache answers a question once per key and block, however many
// callers and replicas ask it.
//
// [Cache.Get] looks, in this order, at
//
//  1. memory: a fresh entry is served, a stale one too, while one flight in the
//     background reads it anew. For a key that is not there, a glance at the
//     shared store may end it;
//  2. the flight of this key: callers who need the same answer share one
//     flight, which outlives any of them. In the flight:
//  3. the shared store (Redis): one script either gives an entry that is new
//     enough, or the lease of the key, or says that another replica holds the
//     lease; that one's message wakes those who wait for it;
//  4. the origin, asked by whoever holds the lease. Its answer goes into memory
//     and the shared store, and wakes the waiting replicas.
//  5. Where the origin fails, an entry that [Policy] allows for such times
//     is served, else the error.
//
// How new is new enough, [Policy] says: in blocks where the caller knows the
// tip and the entry its height, else in seconds.
//
// The shared store is optional and never trusted to be well. Each of its
// operations has [Options.RedisTimeout], a breaker keeps a dead one from being
// waited for, and what is found there that cannot be read is a miss. Without it
// flights are coalesced within the process only.
package cache
