package indexer

import (
	"fmt"
	"strconv"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A Network is a chain and its contracts whose events count. IP groups are tokens of a separate contract, which is therefore a
// collection like any other.
type Network struct {
	Name    string // in metadata; the chain id if the network is not public
	ChainID int64  // of the execution layer
	ledger.Contracts
}

// ParseNetwork parses the name of a public network, story or aeneid, or the chain id and contracts of another one in the
// order of ledger.Contracts.
func ParseNetwork(items ...string) (n Network, err error) {
	if len(items) == 1 {
		if public, ok := Networks()[items[0]]; ok {
			return public, nil
		}
		return n, fmt.Errorf("%q is neither story nor aeneid; another network is a list: chain id, and addresses of IPAssetRegistry, LicensingModule and DisputeModule", items[0])
	}
	addresses := []*ledger.Address{&n.Registry, &n.Licensing, &n.Disputes}
	if len(items) != 1+len(addresses) {
		return n, fmt.Errorf("%d items, want 4: chain id, and addresses of IPAssetRegistry, LicensingModule and DisputeModule", len(items))
	}
	if n.ChainID, err = strconv.ParseInt(items[0], 0, 64); err != nil || n.ChainID <= 0 {
		return n, fmt.Errorf("%q is not the chain id of a network", items[0])
	}
	n.Name = strconv.FormatInt(n.ChainID, 10)
	for i, a := range addresses {
		if *a, err = ParseAddress(items[1+i]); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Networks returns the public networks by name. Their contracts are proxies at the same addresses.
func Networks() map[string]Network {
	var contracts ledger.Contracts // constants always parse
	contracts.Registry, _ = ParseAddress("0x77319B4031e6eF1250907aa00018B8B1c67a244b")
	contracts.Licensing, _ = ParseAddress("0x04fbd8a2e56dd85CFD5500A4A4DfA955B9f1dE6f")
	contracts.Disputes, _ = ParseAddress("0x9b7A9c70AFF961C799110954fc06F3093aeb94C5")
	return map[string]Network{"story": {"story-mainnet", 1514, contracts}, "aeneid": {"story-aeneid", 1315, contracts}}
}

func (n *Network) contracts() [3]ledger.Address {
	return [...]ledger.Address{registry: n.Registry, licensing: n.Licensing, disputes: n.Disputes}
}

const registry, licensing, disputes = 0, 1, 2

// checkStore checks that a store is empty or was filled from this network.
func (n *Network) checkStore(c ledger.Cursor) error {
	switch {
	case c.Chain == 0:
		return nil
	case c.Chain != n.ChainID:
		return fmt.Errorf("%w: the store holds chain id %d, the network's is %d", ErrOtherChain, c.Chain, n.ChainID)
	case c.Contracts != n.Contracts:
		return fmt.Errorf("%w: the store was filled from the contracts %v, the network's are %v: use another store",
			ErrOtherChain, c.Contracts, n.Contracts)
	}
	return nil
}

// ParseAddress parses 0x and 40 hex digits.
func ParseAddress(s string) (a ledger.Address, err error) {
	if !ledger.ReadHex(a[:], s) {
		return ledger.Address{}, fmt.Errorf("%.60q is not 0x and 40 hexadecimal digits", s)
	}
	return a, nil
}
