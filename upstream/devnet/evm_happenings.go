package devnet

import (
	"encoding/binary"
	"fmt"
	"math/big"
)

// A kind is something that can happen to an asset.
type kind int

const (
	registered kind = iota
	licensed
	disputed
	judged
	cancelled
	resolved
	tagged      // as one that derives from an infringer: a dispute that no account raised
	resolvedToo // as the dispute that tagged it
)

// A happening is one transaction that concerns an asset.
type happening struct {
	asset
	kind    kind
	block   int64
	dispute int64 // identifier, for all that is about one
}

// How many blocks after its registration an asset is licensed for the last time,
// and how many after it the last dispute is over.
const (
	licensedFor = 255
	disputedFor = raisedAfter + 4*256
)

// follow is what happens to an asset, the cause before what comes of it.
func (l ledger) follow(a asset) []happening {
	at := assetBlock(a.number)
	all := []happening{{asset: a, kind: registered, block: at}}
	if a.digest[16]%4 == 0 {
		all = append(all, happening{asset: a, kind: licensed, block: at + int64(a.digest[17])})
	}
	if isDisputed(a.number) {
		all = append(all, l.dispute(a)...)
	}
	return all
}

// amount is what a happening adds to its counter: one, or up to seven licenses.
func (h happening) amount() int64 {
	if h.kind != licensed {
		return 1
	}
	return 1 + int64(h.digest[20]%7)
}

const (
	assetsPerDispute = 100 // registrations for every dispute
	firstDisputed    = 20  // the number of the first asset that is disputed
	raisedAfter      = 40  // blocks; always as many, so that identifiers rise
)

func isDisputed(number int64) bool { return number%assetsPerDispute == firstDisputed }

// fates are the ways that disputes go, in turn.
var fates = [...][]kind{
	{judged, tagged, resolved, resolvedToo}, {}, {cancelled}, {judged}, {judged, resolved}, {cancelled}, {judged, tagged}, {judged},
}

// dispute is the dispute about an asset. It has two identifiers: one for itself,
// one for that of the asset registered just before, which derives from it.
func (l ledger) dispute(a asset) []happening {
	turn := a.number / assetsPerDispute
	h := happening{asset: a, kind: disputed, block: assetBlock(a.number) + raisedAfter, dispute: 2*turn + 1}
	all := []happening{h}
	for i, kind := range fates[turn%int64(len(fates))] {
		h.kind = kind
		h.block += 1 + int64(a.digest[24+i])
		next := h
		if kind >= tagged { // happens to the asset that derives from the disputed one
			next.asset, next.dispute = l.asset(a.number-1), h.dispute+1
		}
		all = append(all, next)
	}
	return all
}

// disputedBy is the number of the asset that a dispute began with. It need not
// be so many yet.
func disputedBy(dispute int64) int64 {
	return (dispute-1)/2*assetsPerDispute + firstDisputed
}

// isStray tells whether a dispute is about something that is no IP. It counts
// for no collection.
func (h happening) isStray() bool { return h.dispute%32 == 15 }

// The contracts.
var (
	registryAddress  = mustAddress(IPAssetRegistry)
	licensingAddress = mustAddress(LicensingModule)
	disputeAddress   = mustAddress(DisputeModule)
	groupsAddress    = mustAddress(GroupNFT)
)

// deployments are the blocks from which on they exist.
var deployments = map[address]int64{registryAddress: 901, licensingAddress: 913, disputeAddress: 927, groupsAddress: 940}

// The collections that are unlike others, by their index.
const (
	groupsIndex  = 3 // the groups
	foreignTurn  = 9 // this one of every 32 is on another chain
	foreignChain = 1
)

// collectionAddress is the token contract of the i-th collection.
func collectionAddress(seed uint64, i int) address {
	if i == groupsIndex {
		return groupsAddress
	}
	d := digest(seed, "collection", i)
	return addressOf(d[12:])
}

// chainOf is the chain that the tokens of the i-th collection are on.
func (l ledger) chainOf(i int) uint64 {
	if i%32 == foreignTurn {
		return foreignChain
	}
	return l.home
}

// ip is the account of an asset. Its number can be read from it.
func (l ledger) ip(a asset) address {
	ip := addressOf(a.digest[:])
	binary.BigEndian.PutUint64(ip[12:], uint64(a.number)^l.mask)
	return ip
}

// find is the asset with an account, if it is registered by a block.
func (l ledger) find(ip address, block int64) (asset, bool) {
	n := int64(binary.BigEndian.Uint64(ip[12:]) ^ l.mask)
	if n < 0 || n > block || assetBlock(n) > block || l.count == 0 {
		return asset{}, false
	}
	a := l.asset(n)
	return a, l.ip(a) == ip
}

// token is the identifier of the asset within its collection. Some are large.
func (a asset) token() word {
	if a.number%50 == 7 {
		return a.digest
	}
	return numberWord(uint64(a.number) + 1)
}

// name is what the registry calls an asset.
func (l ledger) name(a asset) string {
	id := a.token()
	return fmt.Sprintf("%d: Collection %d #%d", l.chainOf(a.collection), a.collection, new(big.Int).SetBytes(id[:]))
}

// subject is the address that a dispute is about.
func (l ledger) subject(h happening) address {
	if h.isStray() {
		return addressOf(h.digest[:])
	}
	return l.ip(h.asset)
}

// disputeAbout is how the dispute with an identifier came up by a block, if it did.
func (l ledger) disputeAbout(id, block int64) (happening, bool) {
	if id < 1 || id > block || l.count == 0 {
		return happening{}, false
	}
	for _, h := range l.follow(l.asset(disputedBy(id))) {
		if h.dispute == id && h.block <= block {
			return h, true
		}
	}
	return happening{}, false
}

// hash is a digest that stands for some thing of the chain.
func (l ledger) hash(what string, i int64) word { return digest(l.seed, "evm "+what, int(i)) }

// transactionHash names the i-th transaction of a block.
func (l ledger) transactionHash(block, i int64) word { return l.hash("transaction", block<<16|i) }
