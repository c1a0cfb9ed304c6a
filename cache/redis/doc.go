// Package redis is the store that the caches of several replicas share. It implements [cache.Shared] with a single
// Redis, a Sentinel or a Cluster.
//
//   - client.go: opens the Redis that a URL names
//   - codec.go, seal.go: an entry is a hash with description m and body b; a signature may prove that a replica wrote it
//   - pipeline.go: concurrent commands share round trips
//   - entries.go: reads, loads, saves and inspects entries
//   - agreement.go: replicas agree on the epoch of a chain and the hashes of its blocks
//   - lease.go, acquire.go: a script grants a free lease, reports the holder of a taken one, or returns an entry other than
//     the one that the caller has judged (scripts.go). A message tells the holder that a caller waits
//   - writes.go: another script stores entries, releases their leases and publishes them; writes that no other replica
//     waits for are batched
//   - subscriber.go: a message wakes replicas that wait for a lease, and renews older entries of the key
//   - keys.go: the names of keys
//   - buckets.go: counts rates of clients, for package limits, which has a breaker of its own
//   - purge.go: removes selected entries step by step, and sends replicas a signed announcement
//   - store.go, failures.go: the settings; each operation has a deadline and a breaker; failures are counted by kind
//
// Redis may be slow, down or full, and others may write to it. Each round trip is limited by [Options.Timeout], and a
// command that waits for one by twice that. A breaker prevents waiting for a Redis that is down. A panic of the client
// library becomes an error. Values that cannot be decoded are treated as absent, and overwritten.
package redis
