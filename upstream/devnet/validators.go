package devnet

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The times in the state are fixed, so that they do not depend on when a
// devnet was started.
var (
	genesisTime = time.Date(2026, 11, 20, 11, 29, 10, 853154123, time.UTC)
	createdTime = time.Date(2026, 11, 20, 11, 30, 54, 282141021, time.UTC)
	releaseTime = time.Date(2026, 11, 20, 12, 1, 6, 593827838, time.UTC)
	epoch       = time.Unix(0, 0).UTC()
	doomsday    = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// A description is what a validator says about itself.
type description struct {
	Moniker         string `json:"moniker"`
	Identity        string `json:"identity,omitempty"`
	Website         string `json:"website,omitempty"`
	SecurityContact string `json:"security_contact,omitempty"`
	Details         string `json:"details,omitempty"`
}

func describe(i int) description {
	d := description{Moniker: monikers[i]}
	if d.Moniker == "" {
		d.Moniker = fmt.Sprintf("validator-%02d", i)
	}
	if i == signer {
		d.Identity, d.Website = "devnet validator 0", "https://example.org/?a=1&b=<2>"
		d.SecurityContact, d.Details = "sec@example.org", "the only signer"
	}
	return d
}

// render prepares the parts of the validator's JSON that never change.
func (v *validator) render() {
	jailed := ""
	if v.jailed {
		jailed = `"jailed":true,`
	}
	v.head = fmt.Appendf(nil, `{"operator_address":%q,"consensus_pubkey":{"type":"tendermint/PubKeySecp256k1","value":%q},%s"status":%d,"tokens":"`,
		v.operator, base64.StdEncoding.EncodeToString(v.pubKey), jailed, v.status)

	about, _ := json.Marshal(describe(v.index)) // strings always encode
	height, until, ids, token := "", epoch, "", ""
	if v.status == unbonding || v.slash > 0 {
		height, until = fmt.Sprintf(`"unbonding_height":"%d",`, 60+v.index), releaseTime
		ids = fmt.Sprintf(`"unbonding_ids":["%d"],`, 150+v.index)
	}
	if !v.locked {
		token = `"support_token_type":1,`
	}
	v.middle = fmt.Appendf(nil, `","description":%s,%s"unbonding_time":%q,"commission":{"commission_rates":{"rate":%q,"max_rate":"0.200000000000000000","max_change_rate":"0.010000000000000000"},"update_time":%q},"min_self_delegation":"%d",%s%s"rewards_tokens":"`,
		about, height, stamp(until), ratio(v.rate, 1, 10_000).String(), stamp(createdTime), step, ids, token)
}

// appendValidator appends the JSON of a validator.
func (s state) appendValidator(b []byte, v *validator) []byte {
	b = append(b, v.head...)
	b = strconv.AppendUint(b, s.tokens(v), 10)
	b = append(b, `","delegator_shares":"`...)
	b = decimal{whole: s.shares(v)}.appendTo(b)
	b = append(b, v.middle...)
	shares := s.rewardsShares(v)
	b = shares.slashed(v.slash).appendTo(b)
	b = append(b, `","delegator_rewards_shares":"`...)
	return append(shares.appendTo(b), `"}`...)
}

// statusFilter are the names of the states in queries.
var statusFilter = map[string]int{
	"": 0, "BOND_STATUS_UNBONDED": unbonded, "BOND_STATUS_UNBONDING": unbonding, "BOND_STATUS_BONDED": bonded,
}

// validatorList answers /staking/validators.
func validatorList(q *query) error {
	status, known := statusFilter[q.request.Status]
	if !known {
		return fmt.Errorf("rpc error: code = InvalidArgument desc = invalid validator status %s", q.request.Status)
	}
	return q.validatorPage(q.present(), func(v *validator) bool { return status == 0 || v.status == status })
}

// present are the validators that are in the list at this height.
func (s state) present() []*validator {
	every := s.chain.turnover
	if every == 0 {
		return s.validators
	}
	var there []*validator
	for _, v := range s.validators {
		if noise(s.seed, "turnover", int(s.height)*len(s.validators)+v.index, uint64(every)) != 0 {
			there = append(there, v)
		}
	}
	return there
}

// delegatorValidators answers with the validators of a delegator.
func delegatorValidators(q *query) error {
	raw, err := q.delegator(0)
	if err != nil {
		return err
	}
	return q.validatorPage(q.delegations(raw), everyone)
}

func everyone(*validator) bool { return true }

// validatorPage answers with a page of validators; an empty one is null.
func (q *query) validatorPage(all []*validator, keep func(*validator) bool) error {
	page, err := paginate(q.request.Pagination, all, operatorKey, keep)
	if err != nil {
		return err
	}
	q.list(`{"validators":`, len(page.items), "null", func(i int) { q.out = q.appendValidator(q.out, page.items[i]) })
	q.pagination(page.next, page.total)
	return nil
}

// operatorKey is the page key of lists ordered by validator.
func operatorKey(v *validator) []byte { return v.operator.key() }

// validatorSingle answers /staking/validators/{validator}.
func validatorSingle(q *query) error {
	raw, err := q.operator(0)
	if err != nil {
		return err
	}
	v := q.lookup(raw)
	if v == nil {
		return fmt.Errorf("rpc error: code = NotFound desc = validator %s not found", bech32Text(validatorPrefix, raw))
	}
	q.text(`{"validator":`)
	q.out = q.appendValidator(q.out, v)
	q.text("}")
	return nil
}

// delegatorValidator answers with one validator of a delegator.
func delegatorValidator(q *query) error {
	p, err := q.pair(0, 1)
	if err != nil {
		return err
	}
	if p.stake == nil {
		return errNoTuple.rpc()
	}
	q.text(`{"validator":`)
	q.out = q.appendValidator(q.out, p.validator)
	q.text("}")
	return nil
}

// bondedByPower lists the bonded validators, the strongest first.
func (s state) bondedByPower() []*validator {
	active := slices.DeleteFunc(slices.Clone(s.validators), func(v *validator) bool { return v.status != bonded })
	slices.SortFunc(active, func(a, b *validator) int {
		return cmp.Or(cmp.Compare(s.tokens(b), s.tokens(a)), bytes.Compare(a.operator[:], b.operator[:]))
	})
	return active
}
