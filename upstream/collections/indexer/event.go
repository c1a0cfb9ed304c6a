package indexer

import (
	"maps"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// kind says what happened.
type kind int

// The kinds. Registering an IP a second time emits nothing, and the account
// that is made for one emits an event of another contract, which does not count.
const (
	Registered kind = iota // an IP asset was registered
	Minted                 // license tokens were minted
	Raised                 // a dispute was raised
	Judged                 // a dispute was decided, whatever the decision
	Cancelled              // a dispute was withdrawn
	Resolved               // a dispute was settled
	Tagged                 // an IP inherited the tag of another's infringement, which makes a dispute that was never raised
	kinds
)

// String is the kind as metrics name it.
func (k kind) String() string {
	return [...]string{"registered", "minted", "raised", "judged", "cancelled", "resolved", "tagged"}[k]
}

// An Event is a log that counts.
type Event struct {
	Kind  kind
	Block int64
	Time  time.Time // the block's; zero while unknown

	BlockHash ledger.Hash // as the log says it; zero where it does not

	IP         ledger.Address // Registered, Minted, Raised, Tagged: whose event it is
	Collection ledger.Address // Registered: the token contract, which may be one of another chain
	Dispute    ledger.Hash    // Raised, Judged, Cancelled, Resolved, Tagged: the id
	Amount     int64          // Minted: license tokens
}

// A signature is how the logs of an event look.
type signature struct {
	kind    kind
	emitter int // the contract, by its index in Network.contracts
	topics  int // how many, the signature itself included
	words   int // 32-byte words of data, at the least
}

// signatures are those of the events that count, by their first topic: the
// Keccak-256 of what stands behind each.
var signatures = map[string]signature{
	"0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767": {Registered, registry, 4, 4}, // IPRegistered(address,uint256,address,uint256,string,string,uint256)
	"0x0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a": {Minted, licensing, 4, 4},    // LicenseTokensMinted(address,address,address,uint256,uint256,address,uint256)
	"0x4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1": {Raised, disputes, 1, 8},     // DisputeRaised, with a caller
	"0x0d33aef6594f31a48636b65156c5ef95cc55d30bc086f59468bb1461153e8743": {Raised, disputes, 1, 8},     // DisputeRaised, without one
	"0xfa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3": {Judged, disputes, 1, 3},     // DisputeJudgementSet(uint256,bool,bytes)
	"0xfebcb1416e54dcfc6be64b1ad5531b7ffe4733b94972361567dd8da40e404c03": {Cancelled, disputes, 1, 2},  // DisputeCancelled(uint256,bytes)
	"0xe552ae9fc3589b0b34444687568547a934871d53843ce14f33940335d4d70e71": {Resolved, disputes, 1, 2},   // DisputeResolved(uint256,bytes)
	"0xf0b760f19317a7e4ea4ac34ecddaff62bcecf43c393f3994450d0499e173b327": {Tagged, disputes, 1, 6},     // IpTaggedOnRelatedIpInfringement(uint256,address,address,uint256,bytes32,uint256)
}

// topics are the first topics of the logs that are asked for.
var topics = slices.Sorted(maps.Keys(signatures))
