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
//  1. lookup.go says by which tip it is answered, and asks memory at the policy of the kind (classes.go);
//  2. answer.go says what is told of the answer, and writes it over HTTP.
//
// Not all queries need more than that:
//
//   - heights.go reads the blocks and the session that a request names, and wait.go waits for them, or for
//     what the client has seen on its connection (session.go), or for what a block of the execution chain did;
//   - walk.go reads a later page of a list at the block of the page before;
//   - origin.go, on a miss, has the node asked, and says which answers are none;
//   - batch.go has several queries answered at one block, as if they were one: that is the origin
//     of a query whose Batch is set;
//   - feed.go has the answers that streams follow, and what a query would come to; replay.go has those of
//     the fast lane.
package blocks
