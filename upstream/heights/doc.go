// Package heights follows the newest block of a chain over all its nodes. It treats heights as
// claims until a read proves them.
//
// Each node has two height sources, and package tip judges their claims:
//
//   - CometBFT (rpcfollower.go): NewBlockHeader events while the WebSocket is connected, and
//     /abci_info, which is polled every few blocks in any case. The height of /status can be ahead
//     of the newest readable block, so it is never claimed. If /abci_info hangs, as it does while
//     the chain halts, /status still shows that the node is alive.
//   - The REST server (restfollower.go) is read while CometBFT is absent, does not respond, is distrusted
//     or is late with a block that can be read. It refuses reads above its newest block.
//
// An implausible claim (claim.go) must be proved by a read at its height. If the read fails, the
// source is distrusted until a read proves it right, and the log records this once. If a request
// cannot be answered at the tip, the tip is proved in the same way.
//
// An epoch (epoch.go) is the time between two resets of the chain. It ends when every source has claimed lower heights
// for RollbackAfter, or for longer if none has lowered its claim, and no node answered a read at the proved height
// (rollback.go), or when the hash of a block changes (hashes.go). If a node answers such a read, the epoch goes on and the
// lower sources are distrusted. When an epoch begins, Options.OnEpoch is called before the tip falls. Replicas agree on
// the epoch through a Ledger: the highest epoch of any replica applies. Its anchors, the hashes of some blocks, show each
// replica whether the others read the same chain. A node with another hash than most nodes is on a fork (fork.go).
package heights
