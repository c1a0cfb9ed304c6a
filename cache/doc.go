// Package cache answers a question once per key and block, however many
// callers and replicas ask it.
//
// [Cache.Get] looks, in this order, at
//
//  1. memory: a fresh entry is served. For a stale one the caller waits a moment
//     (patience.go), unless the origin fails or is slow: then it is served, too,
//     and one flight in the background reads it anew. For a key that is not
//     there, one read of the shared store may end it;
//  2. the flight of this key: callers who need the same answer share one
//     flight, which outlives any of them. In the flight:
//  3. the shared store: it gives an entry that this replica has not judged yet, or
//     the lease of the key, or says that another replica holds the lease. A message of that
//     replica wakes the flights that wait for it, and says what it has settled to the
//     others, which then need not ask (subscriber.go);
//  4. the origin, asked by the flight that holds the lease. Its answer goes into
//     memory and to the callers, then into the shared store, and wakes the
//     waiting replicas.
//  5. Where the origin fails, an entry that [Policy] allows for such times
//     is served, else the error.
//
// Keys that are asked for at least twice in every block are read as soon as one
// comes, before a caller asks ([Cache.ReadAhead]); package cache/ahead chooses them.
//
// A request goes down lookup.go: Get, a hit, the wait, the answer. A flight goes down
// flight.go, and agrees with other replicas in replicas.go. What both find is judged by
// package cache/freshness: in blocks where the caller knows the tip and the entry its
// height, else in seconds.
//
// The shared store is optional and lies behind [Shared]; package cache/redis is
// one. It is never trusted to be well: a caller waits for a silent one once, and
// what cannot be read there is a miss. Without it flights are coalesced within
// the process only. A chain has a [Cache.SetNamespace] of its own; nothing is
// kept from one namespace to another.
package cache
