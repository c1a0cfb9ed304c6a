// Package redis is the store that the caches of several replicas share. It
// implements [cache.Shared] with a single Redis, a Sentinel's or a Cluster.
//
//   - codec.go, seal.go: an entry is a hash, m for its head and b for its body;
//     an HMAC may say who wrote it
//   - exchange.go: operations that come while others are under way go to Redis together, and
//     those that no caller waits for with the next one
//   - entries.go: entries are read, loaded and saved many at once, and inspected
//   - hot.go: the keys are noted that replicas use most
//   - chain.go: replicas agree on the epoch of a chain, note the hashes of its blocks, and
//     what its nodes speak; that is sealed, too
//   - lease.go: two commands in one exchange take the lease of a key that is free. Three more, in a
//     second one, report whether another replica has it, and notify that replica that a caller waits
//     (in a Cluster by a message of its own).
//     Where neither is so a script (acquire.go, scripts.go) says what is: it gives an entry that the
//     caller has not judged yet
//   - writes.go: another script stores answers, gives their leases back and publishes what they
//     are; those that no other replica waits for go together
//   - subscriber.go: a replica that waits for a lease is woken by that message, and one that has
//     an older entry of the key needs not ask for the newer one
//   - tell.go: in a Cluster such messages go through channels that its nodes share out
//   - purge.go: selected entries are removed step by step, and replicas are told,
//     under a seal
//   - store.go, errorkind.go: each operation has a deadline and a breaker; failures are counted by kind
//
// Redis is shared ground: it may be slow, dead or full, and others may write to
// it. Each operation has [Options.Timeout], and a breaker keeps a dead Redis from
// being waited for. A panic of the client library becomes an error. What cannot
// be read is absent, and is overwritten.
package redis
