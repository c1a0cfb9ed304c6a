// Package node asks the nodes of one chain: a REST client with its error
// table, a follower of the newest block for each node, and the pool that picks
// the node to ask and spares it.
//
// A request goes through it like this:
//
//  1. Pool.Fetch (fetch.go) picks the endpoint that has the height and answered well.
//  2. It queues there for its turn, in the line of its client. How much a node is asked at
//     once adapts: a small one is at its best with two to four requests in flight, and
//     above eight its blocks come late.
//  3. AtTip becomes a height when the request leaves the queue.
//  4. The endpoint (endpoint.go) has one of its servers asked, each behind a breaker of its own:
//     the REST server (client.go, whose answers story.go or cosmos.go understands), CometBFT's
//     RPC (call.go), or gRPC (grpc.go).
//     What the text of an error means is in one table (texts.go).
//  5. Silence, a pruned height or a node that lags send it to another endpoint. Where
//     none gets to the newest block, it is read at the newest that one has. What is said
//     where none answers is in unanswered.go.
//
// members.go adds and removes endpoints.
//
// What an endpoint has is learned before it is asked: its newest height, and its
// oldest from /status and from refusals. The oldest height only puts endpoints in an order:
// one that has pruned a height is asked last, and a height is refused once all have refused it.
//
// Heights are followed, and judged, in package heights: they are claims until
// they are proved. The turns at an endpoint are package queue's.
package node
