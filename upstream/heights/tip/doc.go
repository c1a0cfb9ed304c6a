// Package tip determines a chain's newest block from the claims of height sources.
//
// Claims come from headers, /abci_info, refusals that name the latest height, responses of the REST
// server, and other replicas. A claim becomes the tip if it is
//
//   - plausible: at most the last proved height, plus the blocks made since then at the learned
//     pace, plus [Slack], or
//   - proved: a read at that height was answered.
//
// If a claim is neither, its source is distrusted: the tracker ignores its claims until a read proves one of them. No
// response was served from an unproved height, so the tip may fall below it. A proved height stays for the
// epoch. A claim of another replica must be plausible, and is withdrawn if no source of this process confirms it in time.
// Such claims prove nothing, so a series of them cannot raise the tip faster than the pace.
//
// The tip falls below a proved height only with a new epoch. An epoch ends when all usable sources have claimed lower
// heights for the rollback time and no read at the proved height was answered meanwhile, or when a block's hash changes. If
// none of the sources has lowered its claim, the time is six times as long. A source is usable if it is trusted, has a recent
// claim and does not catch up with its peers.
package tip
