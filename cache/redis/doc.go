// Package redis is the store that the caches of several replicas share. It
// implements [cache.Shared] with a single Redis, a Sentinel's or a Cluster.
//
//   - codec.go, seal.go: an entry is a hash, m for its head and b for its body;
//     an HMAC may say who wrote it
//   - exchange.go: operations that come while others are under way go to Redis together
//   - reads.go: entries are loaded
//   - epochs.go, agreement.go: replicas agree on the epoch of a chain, and note the
//     hashes of its blocks; that is sealed, too, and so is what its nodes speak
//     (dialect.go)
//   - entries.go: entries are saved many at once, and inspected
//   - acquire.go, scripts.go: two commands give the lease of a key that is free. Else one script
//     gives an entry that the caller has not judged yet, or the lease, or says that another replica
//     has it, which then is told that a caller waits
//   - lease.go, settles.go: another script stores the answer, gives the lease back and publishes
//     what it is; answers that no other replica waits for go together
//   - subscriber.go, renewals.go: a replica that waits for a lease is woken by that
//     message, and one that has an older entry of the key needs not ask for the newer one
//   - tell.go: in a Cluster such messages go through channels that its nodes share out
//   - purge.go: selected entries are removed step by step, and replicas are told,
//     under a seal
//
// Redis is shared ground: it may be slow, dead or full, and others may write to
// it. Each operation has [Options.Timeout], and a breaker keeps a dead Redis from
// being waited for. A panic of the client library becomes an error. What cannot
// be read is absent, and is overwritten.
package redis
