// Package blocks serves reads of a chain, each at one block, for all interfaces. It stands between the interfaces, which
// have paths, bodies and errors of their own, and the cache.
//
// An interface adds its kinds of reads, before SetClasses:
//
//	balance := reader.Add(&blocks.Kind{Name: "balance", Class: blocks.Live})
//
// It makes a [Read] of each request. Its [Source] asks a node on a miss:
//
//	q := &blocks.Read{Key: "rpc/balance/" + address, Kind: balance, Source: source, Ask: ask, Heights: heights}
//	err := reader.Serve(request, q) // failure.Of converts err to a failure.Failure
//
// [Reader.Serve] (serve.go) is the whole way of a read: it waits for the block, asks the cache, with the policy of the kind
// (classes.go), and sends the response, which response.go describes. On a miss, load.go asks a node, and decides which of its
// answers count as failures.
//
// Some reads need more:
//
//   - wait.go waits for the block that a request names, for the newest block that its client has seen (session.go), or for a block
//     of the execution chain;
//   - walk.go reads a later page of a list at the block of the previous page;
//   - batch.go reads several parts at one block;
//   - feed.go reads for streams; forecast.go explains a read; replay.go serves repeated requests in the fast lane (package lane);
//   - posting.go makes clients take turns at sending transactions, and explains an unknown outcome.
package blocks
