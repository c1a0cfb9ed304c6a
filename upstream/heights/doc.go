// Package heights follows the newest block of a chain over all its nodes. Heights
// are claims until they are proved.
//
// Each node has two claimants, and package tip judges what they say:
//
//   - CometBFT (rpcfollower.go): NewBlockHeader events while the websocket lives, else
//     /abci_info, which is asked every few blocks in any case. The height of /status runs ahead
//     of what can be read, so it only shows that a node lives whose /abci_info hangs, as in a halt.
//   - The REST server (restfollower.go), while CometBFT is not there, does not answer, is not
//     believed or is late with a block that can be read. It refuses to read the block after
//     its newest one.
//
// A claim (claim.go) that is not plausible is put to the proof by a read at that height.
// Where that fails, the claimant is put aside until a read proves it right; one
// log line tells of each. A tip that a request waits for in vain is put to the
// proof, too.
//
// An epoch (epoch.go) is the time between two resets of the chain. It ends when every source
// has named lower heights for some time and no node answered a read at the height
// that was proved, or when a block has another hash than before. One answer to such a
// read ends the fall, and the sources that are lower are put aside.
// When one begins, Options.OnEpoch is told first, then the tip falls. Replicas
// agree on it through a Ledger: the highest epoch that any of them has told is in
// force, and the hashes of some blocks, the anchors (hashes.go), show one that starts what
// chain the others had read. A node with another hash is on a fork (setback.go).
package heights
