// Package cache reads each key once per block, however many callers and replicas request it.
//
// [Cache.Get] tries, in this order:
//
//  1. Memory. A fresh entry is served. With a stale entry the caller waits briefly for a newer one (patience.go), unless
//     the origin fails or is slow: then the stale entry is served and one background flight refreshes it. A caller reads a
//     missing key once from the shared store, without a flight or a lease.
//  2. The flight of the key. Callers that need the same answer share one flight, which may outlive them. In the flight:
//  3. The shared store. It returns an entry that this replica has not judged yet, grants the lease of the key, or
//     reports that another replica holds the lease. That replica's message wakes the waiting flights and passes the new
//     entry to all replicas, which then need not read it (replicas.go, subscriber.go).
//  4. The origin, read by the flight that holds the lease, or by each replica if the shared store fails. The entry goes into
//     memory and to the callers, then into the shared store, and waiting replicas are woken.
//  5. If the origin fails, an entry that [Policy] allows for this case is served, or else the error.
//
// Keys that were requested at least twice in each of the last two blocks are read when a block arrives, before the
// next request ([Cache.ReadAhead]). Package cache/ahead selects them.
//
// [Cache.Get] in lookup.go shows what a request does, and run in flight.go what its flight does. What is in progress for a key
// is in its record (key.go). Package cache/freshness judges entries: in blocks if the tip and the entry's height are known,
// otherwise in seconds.
//
// The shared store is optional and implements [Shared]; package cache/redis does. It is never trusted to work: unreadable data is a
// miss, and a caller waits for a store that does not respond once, or twice if it then joins the flight of another caller. Without a
// shared store, flights are shared only within the process. [Cache.SetNamespace] separates chains: entries of one namespace are never
// used in another.
package cache
