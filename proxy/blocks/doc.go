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
//	result, err := reader.Answer(ctx, request, record, q) // failure.Of converts err to a failure.Failure
//	result.Entry.Height, result.Entry.Body                // the block and the body read there
//
// [Reader.Respond] writes the response over HTTP. Other interfaces use the Result, which describes the entry's source
// and why it may be stale.
//
// A read passes, top to bottom:
//
//  1. lookup.go takes the tip, and asks the cache, with the policy of the kind (classes.go). On a miss, load.go asks a node, and
//     decides which of its answers count as failures;
//  2. response.go makes the response, and writes it over HTTP.
//
// Some reads need more:
//
//   - heights.go reads the blocks and the session that a request names. wait.go waits for them, for the newest block
//     that the client has seen (session.go), or for a block of the execution chain;
//   - walk.go reads a later page of a list at the block of the previous page;
//   - batch.go reads several parts at one block;
//   - feed.go serves streams and explains reads; replay.go serves repeated requests in the fast lane (package lane);
//   - posting.go makes clients take turns at sending transactions.
package blocks
