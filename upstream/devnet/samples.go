package devnet

import "github.com/tipcache/tipcache/upstream/devnet/cosmos"

// Addresses that are part of every devnet and have much to tell.
const (
	PopularValidator  = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0" // Options.Delegators delegations
	WideDelegator     = "0x243b338be72573f04688f16dbc05e281517330d0" // on up to 61 validators
	PeriodicDelegator = "0xa82f5d1f204b382d90ca549b695aedb7fde14817" // 129 period delegations on PopularValidator
)

// Validators are the operator addresses of all validators, in order.
func (d *Devnet) Validators() []string {
	if d.options.Dialect == Cosmos {
		return cosmos.Validators()
	}
	addresses := make([]string, len(d.chain.layout.validators))
	for i, v := range d.chain.layout.validators {
		addresses[i] = v.Operator.String()
	}
	return addresses
}

// Delegators are the addresses that delegate to PopularValidator, in order.
func (d *Devnet) Delegators() []string {
	if d.options.Dialect == Cosmos {
		return d.chain.cosmos.Delegators()
	}
	stakes := d.chain.layout.byOperator[string(mustHex(PopularValidator))].stakes
	addresses := make([]string, len(stakes))
	for i := range stakes {
		addresses[i] = stakes[i].delegator.String()
	}
	return addresses
}
