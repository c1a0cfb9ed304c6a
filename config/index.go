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
	v.check(c.Index.From >= 0, "index.from", "must not be negative")
	v.check(c.Index.Window > 0, "index.window", "must be positive")
	v.check(c.Index.Ahead > 0 && c.Index.Ahead <= 64, "index.ahead", "must be from 1 to 64")
	v.check(c.Index.Poll > 0, "index.poll", "%v is not a positive time", c.Index.Poll)
	v.check(c.Index.Timeout > 0, "index.timeout", "%v is not a positive time", c.Index.Timeout)
}

func (v *validation) contracts(c IndexContracts) {
	v.check(c.ChainID > 0, "index.contracts.chain_id", "must be positive for a custom network")
	for _, contract := range []struct{ key, address string }{{"registry", c.Registry}, {"licensing", c.Licensing}, {"disputes", c.Disputes}} {
		digits, ok := strings.CutPrefix(contract.address, "0x")
		raw, err := hex.DecodeString(digits)
		v.check(ok && err == nil && len(raw) == 20, "index.contracts."+contract.key, "%q is not 0x and 40 hexadecimal digits", contract.address)
	}
}
