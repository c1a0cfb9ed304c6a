// Package unindexed answers for transactions that are in a block and that nodes do not find: one
// that was stopped within a commit never indexes that block. They are known to those who tell
// clients of blocks (package events), and each interface asks for them where a node has found
// nothing:
//
//   - index.go finds them, by hash and by the height of their block;
//   - result.go is the CometBFT RPC's answer, with its proof, and that of REST, for which a node
//     decodes the transaction;
//   - message.go is that of gRPC and of abci_query.
//
// Answers have the bytes that the node's would have, but for the logs of a chain whose SDK is
// older than 0.50, which are left out.
package unindexed
