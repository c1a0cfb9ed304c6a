package devnet

// The answers that never change, as the node sends them.
const (
	authParams         = `{"params":{"max_memo_characters":"256","tx_sig_limit":"7","tx_size_cost_per_byte":"10","sig_verify_cost_ed25519":"590","sig_verify_cost_secp256k1":"1000"}}`
	bankParams         = `{"params":{}}`
	distributionParams = `{"params":{"ubi":"0.050000000000000000","base_proposer_reward":"0.000000000000000000","bonus_proposer_reward":"0.000000000000000000","withdraw_addr_enabled":true,"max_ubi":"0.200000000000000000"}}`
	pendingUpgrade     = `{"plan":{"name":"someday","time":"0001-01-01T00:00:00Z","height":"100000000","info":"{}"}}`
	evmstakingParams   = `{"params":{"max_withdrawal_per_block":32,"max_sweep_per_block":128,"min_partial_withdrawal_amount":"8000000000","ubi_withdraw_address":"0xcccccc0000000000000000000000000000000002"}}`
	mintParams         = `{"params":{"mint_denom":"stake","inflations_per_year":"15315000000000000.000000000000000000","blocks_per_year":"13140000"}}`
	slashingParams     = `{"params":{"signed_blocks_window":"2880000","min_signed_per_window":"0.050000000000000000","downtime_jail_duration":"20000000000","slash_fraction_double_sign":"0.050000000000000000","slash_fraction_downtime":"0.000200000000000000"}}`
	stakingParams      = `{"params":{"unbonding_time":"1800000000000","max_validators":32,"max_entries":14,"historical_entries":10000,"bond_denom":"stake","min_commission_rate":"0.050000000000000000","min_delegation":"1024000000000","periods":[{"duration":"0","rewards_multiplier":"1.000000000000000000"},{"period_type":1,"duration":"120000000000","rewards_multiplier":"1.051000000000000000"},{"period_type":2,"duration":"31104000000000000","rewards_multiplier":"1.160000000000000000"},{"period_type":3,"duration":"46656000000000000","rewards_multiplier":"1.340000000000000000"}],"token_types":[{"rewards_multiplier":"0.025000000000000000"},{"token_type":1,"rewards_multiplier":"1.000000000000000000"}],"singularity_height":"5"}}`
	upgradeAuthority   = `{"address":"story10d07y265gmmuvt4z0w9aw880jnsr700jwlq95x"}`
)

// constant answers with the same message at every height.
func constant(message string) func(*query) error {
	return func(q *query) error {
		q.text(message)
		return nil
	}
}
