// Package events tells subscribers what happens on a chain, as CometBFT does over its
// WebSocket, from one subscription at one node for all of them.
//
// What is made of a block is promised, in the node's order of publishing: none of
// its events comes twice or is missing while a subscription lasts, whatever becomes of
// the nodes (sequencer.go). All of them are built (event.go) of the block and its results
// (results.go), which a node's NewBlock event has; a block that the node did not announce is
// asked for (missed.go).
// Votes and rounds pass as they come.
//
// An event of a block goes out when the block can be read, and that of a transaction when the
// nodes can find it, a second later at most.
//
// The subscription has a connection of its own, beside that which package heights has to
// the same node: a block of some megabytes would hold up the headers behind it, and
// it lasts only while a client subscribes.
package events
