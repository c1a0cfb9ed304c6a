// Package node asks the nodes of one chain: a REST client with its error
// table, a follower of the newest block for each node, and the pool that picks
// the node to ask and spares it.
//
// A request goes through it like this:
//
//  1. Pool.Fetch picks the endpoint that has the height and answered well.
//  2. It queues there for its turn; a node is at its best with two to four
//     requests in flight, and above eight its blocks come late.
//  3. AtTip becomes a height when the request leaves the queue.
//  4. The breaker and the client ask; the node's text is classified.
//  5. Silence, a pruned height or a node that lags send it to another endpoint.
//
// Heights come from CometBFT: NewBlockHeader events while the websocket lives,
// /abci_info otherwise. The height of /status is never used: it runs ahead of
// what can be read.
package node
