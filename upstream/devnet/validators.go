package devnet

import (
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// The times in the state are fixed, so that they do not depend on when a
// devnet was started.
var (
	createdTime = time.Date(2026, 11, 20, 11, 30, 54, 282141021, time.UTC)
	releaseTime = time.Date(2026, 11, 20, 12, 1, 6, 593827838, time.UTC)
	epoch       = time.Unix(0, 0).UTC()
)

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// appendValidator appends the JSON of a validator.
func (q *query) appendValidator(v *validator) {
	jailed, height, until, ids, token := "", "", epoch, "", ""
	if v.Jailed {
		jailed = `"jailed":true,`
	}
	if v.Status == unbonding || v.Slash > 0 {
		height, until = fmt.Sprintf(`"unbonding_height":"%d",`, 60+v.index), releaseTime
		ids = fmt.Sprintf(`"unbonding_ids":["%d"],`, 150+v.index)
	}
	if !v.Locked {
		token = `"support_token_type":1,`
	}
	shares := q.rewardsShares(v)
	q.text(`{"operator_address":"`, v.Operator, `","consensus_pubkey":{"type":"tendermint/PubKeySecp256k1","value":"`, base64Text(v.PubKey), `"},`, jailed,
		`"status":`, uint64(v.Status), `,"tokens":"`, q.tokens(v), `","delegator_shares":"`, decimal{whole: q.shares(v)}, `","description":`, string(v.About), `,`, height,
		`"unbonding_time":"`, stamp(until), `","commission":{"commission_rates":{"rate":"`, ratio(v.rate, 1, 10_000),
		`","max_rate":"0.200000000000000000","max_change_rate":"0.010000000000000000"},"update_time":"`, stamp(createdTime),
		`"},"min_self_delegation":"`, uint64(step), `",`, ids, token, `"rewards_tokens":"`, shares.slashed(v.Slash), `","delegator_rewards_shares":"`, shares, `"}`)
}

// statusFilter are the names of the states in queries.
var statusFilter = map[string]int{
	"": 0, "BOND_STATUS_UNBONDED": unbonded, "BOND_STATUS_UNBONDING": unbonding, "BOND_STATUS_BONDED": bonded,
}

// validatorList answers with the validators in a state.
func validatorList(q *query) error {
	status, known := statusFilter[q.request.Status]
	if !known {
		return fmt.Errorf("rpc error: code = InvalidArgument desc = invalid validator status %s", q.request.Status)
	}
	return q.validatorPage(q.present(), func(v *validator) bool { return status == 0 || v.Status == status })
}

// present are the validators that are in the list at this height.
func (s state) present() []*validator {
	every := s.chain.turnover
	if every == 0 {
		return s.validators
	}
	return where(s.validators, func(v *validator) bool {
		return noise(s.seed, "turnover", int(s.height)*len(s.validators)+v.index, uint64(every)) != 0
	})
}

// delegatorValidators answers with the validators of a delegator.
func delegatorValidators(q *query) error {
	return q.validatorPage(q.accounts[string(q.delegator)], nil)
}

// validatorPage answers with a page of validators; an empty one is null.
func (q *query) validatorPage(all []*validator, keep func(*validator) bool) error {
	return listPage(q, "validators", "null", all, (*validator).key, keep, q.appendValidator)
}

// key is the page key of lists ordered by validator.
func (v *validator) key() string { return v.Operator.key() }

// validatorSingle answers with the validator of the path.
func validatorSingle(q *query) error {
	if q.validator == nil {
		return fmt.Errorf("rpc error: code = NotFound desc = validator %s not found", cosmos.Bech32(validatorPrefix, q.operator))
	}
	return q.object("validator", func() { q.appendValidator(q.validator) })
}

// delegatorValidator answers with one validator of a delegator.
func delegatorValidator(q *query) error {
	if q.stake == nil {
		return internal(errNoTuple)
	}
	return validatorSingle(q)
}
