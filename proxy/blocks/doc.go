// Package blocks serves reads of a chain, each at one block, for all interfaces. It stands between the interfaces, which
// have paths, bodies and errors of their own, and the cache.
//
// An interface adds its kinds of reads, before SetClasses:
//
//	balance := reader.Add(&blocks.Kind{Name: "balance", Class: blocks.Live})
//
// It creates a Query for each request. An [Origin] reads the node on a miss:
//
//	q := &blocks.Query{Key: "rpc/balance/" + address, Kind: balance, Origin: origin, Heights: heights}
//	result, err := reader.Answer(ctx, request, record, q) // failure.Of converts err to a failure.Failure
//	result.Entry.Height, result.Entry.Body                // the block and the body read there
//
// [Reader.Respond] writes the response over HTTP. Other interfaces use the Result, which describes the entry's source
// and why it may be stale.
//
// A query passes, top to bottom:
//
//  1. lookup.go takes the tip, and looks into memory, with the policy of the kind (classes.go);
//  2. response.go makes the response, and writes it over HTTP.
//
// Some queries need more:
//
//   - heights.go reads the blocks and the session that a request names. wait.go waits for them, for the newest block
//     that the client has seen (session.go), or for a block of the execution chain;
//   - walk.go reads a later page of a list at the block of the previous page;
//   - origin.go reads the node on a miss and decides which of its answers count as failures;
//   - batch.go reads several queries at one block, as the origin of a query with a Batch;
//   - feed.go serves streams and explains queries; replay.go serves repeated requests in the fast lane (package lane);
//   - posting.go makes clients take turns at sending transactions.
package blocks
