package proxy_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The documented shapes are written by hand, independent of the schemas that the proxy uses.
type (
	fields map[string]any // an object; a name with a question mark may be absent
	many   []any          // a list whose items all have the shape of the only element
)

// check returns what is wrong with a scalar, "" for nothing.
type check func(v any) string

var (
	str      = matching(`(?s).*`)
	amount   = matching(`\d+`)
	decimal  = matching(`\d+\.\d{18}`)
	boolean  = check(func(v any) string { _, ok := v.(bool); return unless(ok, "not a boolean") })
	anything = check(func(any) string { return "" })
	whole    = check(func(v any) string {
		n, ok := v.(json.Number)
		return unless(ok && !strings.ContainsAny(n.String(), ".eE"), "not an integer")
	})
	timestamp = check(func(v any) string {
		text, _ := v.(string)
		_, err := time.Parse(time.RFC3339Nano, text)
		return unless(err == nil, "not a timestamp")
	})
)

func matching(pattern string) check {
	re := regexp.MustCompile("^" + pattern + "$")
	return func(v any) string {
		text, ok := v.(string)
		return unless(ok && re.MatchString(text), "not a string of "+pattern)
	}
}

func unless(ok bool, complaint string) string {
	if ok {
		return ""
	}
	return complaint
}

var (
	documentedPage      = fields{"total": amount, "next_key?": str}
	documentedValidator = fields{
		"operator_address": str, "consensus_pubkey": fields{"type": str, "value": str}, "status": whole,
		"tokens": amount, "delegator_shares": decimal, "description": fields{"moniker": str}, "unbonding_time": timestamp,
		"commission": fields{
			"commission_rates": fields{"rate": decimal, "max_rate": decimal, "max_change_rate": decimal},
			"update_time":      timestamp,
		},
		"min_self_delegation": amount, "support_token_type?": whole, "rewards_tokens": decimal, "delegator_rewards_shares": decimal,
	}
	documentedCoin       = fields{"denom": str, "amount": amount}
	documentedDelegation = fields{
		"delegation?": fields{"delegator_address": str, "validator_address": str, "shares": decimal, "rewards_shares": decimal},
		"balance?":    documentedCoin,
	}
	documentedPeriodDelegation = fields{
		"delegator_address": str, "validator_address": str, "period_delegation_id": amount,
		"shares": decimal, "rewards_shares": decimal, "end_time": timestamp, "balance?": documentedCoin,
	}
	documentedNetwork = fields{
		"round": whole, "stage": whole, "total": whole, "threshold": whole, "is_resharing": boolean,
		"start_block_height?": amount, "start_block_hash?": str, "active_val_set?": many{str}, "global_public_key?": str, "public_coeffs?": many{str},
	}
	documentedRegistration = fields{
		"round": whole, "validator_addr": str, "index": whole, "dkg_pub_key": str, "comm_pub_key": str, "enclave_report": str,
		"status": whole, "code_commitment": str, "enclave_type": str, "pub_key_share?": str,
	}
	documentedPartials = fields{
		"round": whole, "ciphertext": str, "threshold": whole, "threshold_met": boolean, "submissions": many{fields{
			"validator": str, "round": whole, "pid": whole, "encrypted_partial": str, "ephemeral_pub_key": str, "pub_share": str, "label": str, "ciphertext": str,
		}},
	}
	documentedReward = fields{"validator_address": str, "reward": fields{"denom": str, "amount": matching(`\d+(\.\d{18})?`)}}
)

// documentedMsg is the shape of msg by path. {} stands for an address.
var documentedMsg = map[string]any{
	"/staking/validators":                                     fields{"validators": many{documentedValidator}, "pagination": documentedPage},
	"/staking/validators/{}":                                  fields{"validator": documentedValidator},
	"/staking/validators/{}/delegations":                      fields{"delegation_responses": many{documentedDelegation}, "pagination": documentedPage},
	"/staking/delegations/{}":                                 fields{"delegation_responses": many{documentedDelegation}, "pagination": documentedPage},
	"/staking/delegators/{}/redelegations":                    fields{"redelegation_responses": many{anything}, "pagination": documentedPage},
	"/staking/delegators/{}/validators/{}":                    fields{"validator": documentedValidator},
	"/staking/validators/{}/delegations/{}":                   fields{"delegation_response": documentedDelegation},
	"/staking/validators/{}/delegators/{}/period_delegations": many{documentedPeriodDelegation},
	"/distribution/delegators/{}/rewards":                     fields{"rewards": many{documentedReward}, "total": anything},
	"/dkg/latest_active":                                      fields{"network": documentedNetwork},
	"/dkg/dkg_network":                                        fields{"network": documentedNetwork},
	"/dkg/global_public_key":                                  fields{"public_key": matching(`[0-9a-f]+`)},
	"/dkg/registrations":                                      fields{"registrations": many{documentedRegistration}},
	"/dkg/registrations/verified":                             fields{"registrations": many{documentedRegistration}},
	"/dkg/cdr_partials":                                       fields{"submissions": many{documentedPartials}},
	"/auth/params": fields{"params": fields{
		"max_memo_characters": amount, "tx_sig_limit": amount, "tx_size_cost_per_byte": amount,
		"sig_verify_cost_ed25519": amount, "sig_verify_cost_secp256k1": amount,
	}},
	"/distribution/params": fields{"params": fields{
		"ubi": decimal, "base_proposer_reward": decimal, "bonus_proposer_reward": decimal, "withdraw_addr_enabled": boolean, "max_ubi": decimal,
	}},
	"/staking/params": fields{"params": fields{
		"unbonding_time": amount, "max_validators": whole, "max_entries": whole, "historical_entries": whole,
		"bond_denom": str, "min_commission_rate": decimal, "min_delegation": amount, "singularity_height": amount,
		"periods":     many{fields{"period_type?": whole, "duration": amount, "rewards_multiplier": decimal}},
		"token_types": many{fields{"token_type?": whole, "rewards_multiplier": decimal}},
	}},
}

var addressInPath = regexp.MustCompile(`/(0[xX]|story)[0-9a-zA-Z]+`)

// documentedShape returns the shape of a path's msg, nil if it is not documented.
func documentedShape(path string) any {
	return documentedMsg[addressInPath.ReplaceAllString(path, "/{}")]
}

// breaches lists where a decoded value differs from its shape. Additional members are allowed.
func breaches(at string, want, got any) (found []string) {
	switch want := want.(type) {
	case check:
		if complaint := want(got); complaint != "" {
			found = append(found, fmt.Sprintf("%s is %v: %s", at, got, complaint))
		}
	case many:
		items, ok := got.([]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, not a list", at, got)}
		}
		for i, item := range items {
			found = append(found, breaches(fmt.Sprintf("%s[%d]", at, i), want[0], item)...)
		}
	case fields:
		members, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, not an object", at, got)}
		}
		for name, shape := range want {
			name, optional := strings.CutSuffix(name, "?")
			value, there := members[name]
			if there || !optional {
				found = append(found, breaches(at+"."+name, shape, value)...)
			}
		}
	}
	return found
}
