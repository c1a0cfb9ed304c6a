package cosmos

import (
	"fmt"
	"strconv"
)

// validatorJSON renders a validator as staking does.
func (s state) validatorJSON(v *validator) string {
	tokens := s.bonded(v)
	unbonding, at, ids := int64(0), "1970-01-01T00:00:00Z", ""
	if v.Jailed {
		unbonding, at, ids = 48, nominalTime(198), `"27"`
	}
	return fmt.Sprintf(`{"operator_address":%q,"consensus_pubkey":{"@type":"/cosmos.crypto.ed25519.PubKey","key":%q},"jailed":%t,"status":%q,"tokens":"%d","delegator_shares":"%d.000000000000000000",`+
		`"description":{"moniker":%q,"identity":"","website":"https://example.org/?a=1\u0026b=\u003c2\u003e","security_contact":"","details":"é"},"unbonding_height":"%d","unbonding_time":%q,`+
		`"commission":{"commission_rates":{"rate":%q,"max_rate":"0.200000000000000000","max_change_rate":"0.010000000000000000"},"update_time":%q},"min_self_delegation":"1000000","unbonding_on_hold_ref_count":"0","unbonding_ids":[%s]}`,
		v.Operator, v.Key, v.Jailed, v.status(), tokens, tokens, v.Moniker, unbonding, at, v.Rate, nominalTime(opening), ids)
}

// pageKey is the key of a validator in lists of validators.
func (v *validator) pageKey() string { return prefixed(v.raw) }

func validators(q *query) (string, error) {
	status := q.args["status"]
	switch status {
	case "", "BOND_STATUS_BONDED", "BOND_STATUS_UNBONDED", "BOND_STATUS_UNBONDING":
	default:
		return "", fail(invalidArgument, "invalid validator status %s", status)
	}
	var some []*validator
	for _, v := range q.members() {
		if status == "" || v.status() == status {
			some = append(some, v)
		}
	}
	return list(q, "validators", some, (*validator).pageKey, q.validatorJSON)
}

func validatorOf(q *query) (string, error) {
	v := q.member(q.operator)
	if v == nil {
		return "", fail(notFound, "validator %s not found", q.args["validator_addr"])
	}
	return fmt.Sprintf(`{"validator":%s}`, q.validatorJSON(v)), nil
}

func delegatorValidators(q *query) (string, error) {
	return list(q, "validators", q.stakes(), func(k *stake) string { return k.to.pageKey() }, func(k *stake) string { return q.validatorJSON(k.to) })
}

func delegatorValidator(q *query) (string, error) {
	k := q.stake()
	if k == nil {
		return "", fail(internal, "no delegation for (address, validator) tuple")
	}
	return fmt.Sprintf(`{"validator":%s}`, q.validatorJSON(k.to)), nil
}

func pool(q *query) (string, error) {
	var bonded, not int64
	for _, v := range q.members() {
		if v.Jailed {
			not += q.bonded(v)
		} else {
			bonded += q.bonded(v)
		}
	}
	return fmt.Sprintf(`{"pool":{"not_bonded_tokens":"%d","bonded_tokens":"%d"}}`, not, bonded), nil
}

// rememberedHistory is the parameter historical_entries.
const rememberedHistory = 10_000

func historicalInfo(q *query) (string, error) {
	height, err := strconv.ParseInt(q.args["height"], 10, 64)
	switch {
	case err != nil:
		return "", err
	case height < 0:
		return "", fail(invalidArgument, "height cannot be negative")
	case height == 0 || height > q.height || height <= q.height-rememberedHistory:
		return "", fail(notFound, "historical info for height %d not found", height)
	}
	return fill("historical_info", "chain", q.chain.id, "height", height), nil
}
