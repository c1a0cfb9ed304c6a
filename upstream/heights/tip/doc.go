// Package tip judges what is claimed of a chain's newest block, and says which
// block that is.
//
// Whatever names a height makes a claim: a header, /abci_info, /status, a
// refusal that names the latest height, an answer of the REST server, another
// replica. A claim becomes the tip when it is
//
//   - plausible: not above the height that was proved last, plus the blocks that
//     the time since then makes at the learned pace, plus [Slack];
//   - confirmed: another source claims the same, within Slack;
//   - proved: a read at that height was answered.
//
// A source whose claim is none of these is put aside: its word counts for
// nothing until a read proves one of its claims. A height that was never proved
// may be taken back: no client has been given an answer of it. A proved height stays
// for the epoch. What replicas say is plausible or ignored, and is taken back
// when no source of this process confirms it in time; a chain of such claims
// cannot lift the tip faster than the pace, for they prove nothing.
//
// The tip falls below a proved height only with a new epoch: when all usable
// sources, nodes that catch up not among them, have been lower for the time
// called rollback, and no read at the proved height was answered meanwhile; or when
// a block's hash has become another.
package tip
