package devnet

import (
	"encoding/binary"
	"fmt"
	"math/big"
)

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

// name is what the registry calls an asset. Not all names are ASCII.
func (l ledger) name(a asset) string {
	title := "Collection"
	if a.collection%8 == 5 {
		title = "Œuvres “libres” 作品"
	}
	id := a.token()
	return fmt.Sprintf("%d: %s %d #%d", l.chainOf(a.collection), title, a.collection, new(big.Int).SetBytes(id[:]))
}

// uri is where the metadata of an asset would be. Some have none.
func (a asset) uri() string {
	if a.digest[30]%8 == 0 {
		return ""
	}
	return fmt.Sprintf("https://metadata.example/%d/%d", a.collection, a.number)
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
