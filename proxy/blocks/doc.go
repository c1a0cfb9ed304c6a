// Package blocks answers reads of a chain by the block. It stands between the
// interfaces to the chain, which have paths, bodies and errors of their own, and the
// cache.
//
// An interface says once which kinds of reads it has, before SetClasses:
//
//	balance := reader.Add(&blocks.Kind{Name: "balance", Class: blocks.Live})
//
// Then it makes of each request a Query, and has it answered. How a node is asked the
// interface says by an [Origin], which is told at which block, in whose turn and at
// what cost:
//
//	q := &blocks.Query{Key: "rpc/balance/" + address, Kind: balance, Origin: origin, Heights: heights}
//	answer, err := reader.Answer(ctx, request, record, q) // err is a web.Failure, or becomes one by web.FailureOf
//	answer.Entry.Height, answer.Entry.Body                // what it is, and at which block it holds
//
// [Reader.Respond] writes such an answer over HTTP. An interface that answers
// otherwise reads Answer, whose Result says where it comes from and why it may be old.
//
// A query goes, top to bottom:
//
//  1. wait.go waits for the block that the client must see, by its request (heights.go), by
//     its connection, or by what a block of the execution chain did, and says by which tip
//     the query is answered;
//  2. lookup.go asks the cache, at the policy of the kind (classes.go): for the newest
//     block, for the one that is named, or for that of the page before in a walk;
//  3. origin.go, on a miss, has the node asked, and says which answers are none;
//  4. answer.go says what is told of the answer.
//
// batch.go has several queries answered at one block, as if they were one: that is the origin
// of a query whose Batch is set.
//
// feed.go has the answers that streams follow, and what a query would come to.
package blocks
