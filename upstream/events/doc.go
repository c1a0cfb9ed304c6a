// Package events publishes a chain's events to subscribers in the form of CometBFT's WebSocket API.
// All subscribers share one subscription at one node.
//
// While a subscription lasts, it receives each block event once, in the node's publishing order, even if nodes fail
// (sequencer.go). It misses one only if no node that can be used provides the block, or if the event cannot be
// built. The package builds them (event.go) from the block and its results (results.go), which a node's NewBlock event
// contains. It reads a block that the node did not announce (missing.go). Consensus events, which are votes and rounds,
// are forwarded unchanged.
//
// A block's events are sent when clients can read the block. A transaction's event is sent when the nodes can find the
// transaction, but at most one second later. If a node keeps no index, it is sent at once.
//
// The subscription has a connection of its own, separate from package heights' connection to the same node, because a block
// of several megabytes would delay the headers behind it. It is open only while a client subscribes.
//
// Subscriptions and unread events (subscriber.go, queue.go) use the part of the account for events, in which each client has a
// share.
package events
