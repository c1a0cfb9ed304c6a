package config

import (
	"encoding/hex"
	"fmt"
	"strings"
)

func (v *validation) index(c Config) {
	if !c.Index.Enabled {
		return
	}
	v.check(!strings.HasPrefix(c.Collections.Store, "http"), "index.enabled", "collections.store is another server, which fills its own")
	v.check(len(c.Index.EVM) > 0, "index.evm", "at least one is needed")
	for i, u := range c.Index.EVM {
		v.httpURL(fmt.Sprintf("index.evm[%d]", i), u)
	}
	v.oneOf("index.network", c.Index.Network, "story", "aeneid", "custom")
	if c.Index.Network == "custom" {
		v.contracts(c.Index.Contracts)
	}
	v.check(c.Index.From >= 0, "index.from", "%d is negative", c.Index.From)
	positive(v, "index.window", c.Index.Window)
	v.check(c.Index.Ahead > 0 && c.Index.Ahead <= 64, "index.ahead", "%d is not from 1 to 64", c.Index.Ahead)
	positive(v, "index.poll", c.Index.Poll)
	positive(v, "index.timeout", c.Index.Timeout)
}

func (v *validation) contracts(c IndexContracts) {
	v.check(c.ChainID > 0, "index.contracts.chain_id", "%d is not the chain id of a custom network", c.ChainID)
	for _, contract := range []struct{ key, address string }{{"registry", c.Registry}, {"licensing", c.Licensing}, {"disputes", c.Disputes}} {
		digits, ok := strings.CutPrefix(contract.address, "0x")
		raw, err := hex.DecodeString(digits)
		v.check(ok && err == nil && len(raw) == 20, "index.contracts."+contract.key, "%q is not 0x and 40 hexadecimal digits", contract.address)
	}
}
