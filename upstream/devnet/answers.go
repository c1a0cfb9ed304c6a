package devnet

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A query is one request being answered: the state it reads, what it asks for, what it is
// about, and the message as far as it is written.
type query struct {
	state
	about
	http    *http.Request
	request request // its parameters
	out     []byte

	delegator, operator []byte // the addresses in the path, whether or not they exist
}

// about is what a path names, or an item of a list is about. What there is none of is nil.
type about struct {
	validator *validator
	stake     *stake // at the validator
	lot       *lot   // of the stake
	record    *record
	number    int64
}

// An answer writes a message, or is an error of the node's.
type answer func(*query) error

// text appends what parts have as text.
func (q *query) text(parts ...any) {
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			q.out = append(q.out, p...)
		case address:
			q.out = p.appendTo(q.out)
		case uint64:
			q.out = strconv.AppendUint(q.out, p, 10)
		default:
			q.out = fmt.Append(q.out, p)
		}
	}
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// says answers with a message in which {names} stand for values.
func says(message string) answer {
	var texts []string
	var of []func(*query) any
	for at := placeholder.FindStringIndex(message); at != nil; at = placeholder.FindStringIndex(message) {
		name := message[at[0]+1 : at[1]-1]
		if values[name] == nil {
			panic("devnet: there is no value " + name)
		}
		texts, of, message = append(texts, message[:at[0]]), append(of, values[name]), message[at[1]:]
	}
	return func(q *query) error {
		for i := range texts {
			q.out = append(q.out, texts[i]...)
			q.text(of[i](q))
		}
		q.out = append(q.out, message...)
		return nil
	}
}

// values are what messages have of the state.
var values = map[string]func(*query) any{
	"chain":       func(q *query) any { return q.chain.id },
	"number":      func(q *query) any { return q.number },
	"denom":       func(q *query) any { return q.request.Denom },
	"supply":      func(q *query) any { return q.supply(q.request.Denom) },
	"bonded":      func(q *query) any { return q.staked(func(v *validator) bool { return v.Status == bonded }) },
	"unbonded":    func(q *query) any { return q.staked(func(v *validator) bool { return v.Status != bonded }) },
	"staked":      func(q *query) any { return q.staked(func(*validator) bool { return true }) },
	"delegators":  func(q *query) any { return len(q.accounts) },
	"delegations": func(q *query) any { return len(stakesAt(q)) },

	"operator":    func(q *query) any { return q.validator.Operator },
	"bech32":      func(q *query) any { return cosmos.Bech32(validatorPrefix, q.validator.Operator[:]) },
	"key":         func(q *query) any { return base64Text(q.validator.PubKey) },
	"jailed":      func(q *query) any { return textIf(q.validator.Jailed, `"jailed":true,`) },
	"status":      func(q *query) any { return q.validator.Status },
	"shares":      func(q *query) any { return q.shares(q.validator) },
	"description": func(q *query) any { return string(q.validator.About) },
	"left": func(q *query) any {
		return textIf(q.validator.leaves(), `"unbonding_height":"%d",`, 60+q.validator.index)
	},
	"until": func(q *query) any {
		return stamp(map[bool]time.Time{false: epoch, true: releaseTime}[q.validator.leaves()])
	},
	"ids": func(q *query) any {
		return textIf(q.validator.leaves(), `"unbonding_ids":["%d"],`, 150+q.validator.index)
	},
	"rate":        func(q *query) any { return fraction(q.validator.rate) },
	"support":     func(q *query) any { return textIf(!q.validator.Locked, `"support_token_type":1,`) },
	"period":      func(q *query) any { return q.validator.slashPeriod() },
	"slash":       func(q *query) any { return fraction(q.validator.Slash) },
	"outstanding": func(q *query) any { return coins(q.earned(q.validator, q.shares(q.validator))) },
	"commission": func(q *query) any {
		return coins(q.earned(q.validator, q.shares(q.validator)) / 10_000 * q.validator.rate)
	},

	"queued":   func(q *query) any { return q.height / 4 * 4 },
	"checksum": func(q *query) any { return q.validator.Operator.checksum() },

	"delegator": func(q *query) any { return q.stake.delegator },
	"tokens":    func(q *query) any { return q.tokens(q.validator, q.stake) },
	"reward":    func(q *query) any { return coins(q.reward(q.validator, q.stake)) },

	"id":      func(q *query) any { return q.lot.ID },
	"portion": func(q *query) any { return q.lot.Tokens },
	"term":    func(q *query) any { return textIf(q.lot.Period != 0, `"period_type":%d,`, q.lot.Period) },
	"ends":    func(q *query) any { return stamp(createdTime.Add(periodTerms[q.lot.Period])) },

	"record": func(q *query) any { return string(q.record.Item) },
}

func textIf(yes bool, format string, args ...any) string {
	if yes {
		return fmt.Sprintf(format, args...)
	}
	return ""
}

// fraction is a number of 1/10,000 with 18 digits.
func fraction(n uint64) string { return cosmos.Decimal(int64(n) * 100) } //nolint:gosec // it is below 10,000

// coins is a number of millionths as a list of coins: null where there is none.
func coins(millionths uint64) string {
	if millionths == 0 {
		return "null"
	}
	return fmt.Sprintf(`[{"denom":%q,"amount":%q}]`, denom, cosmos.Decimal(int64(millionths))) //nolint:gosec // earned bounds it
}

// The messages that lists have items of, too.
const (
	validatorMessage = `{"operator_address":"{operator}","consensus_pubkey":{"type":"tendermint/PubKeySecp256k1","value":"{key}"},{jailed}` +
		`"status":{status},"tokens":"{shares}","delegator_shares":"{shares}.000000000000000000","description":{description},{left}"unbonding_time":"{until}",` +
		`"commission":{"commission_rates":{"rate":"{rate}","max_rate":"0.200000000000000000","max_change_rate":"0.010000000000000000"},"update_time":"2026-11-20T11:30:54.282141021Z"},` +
		`"min_self_delegation":"1024000000000",{ids}{support}"rewards_tokens":"{shares}.000000000000000000","delegator_rewards_shares":"{shares}.000000000000000000"}`
	delegationMessage = `{"delegation":{"delegator_address":"{delegator}","validator_address":"{operator}","shares":"{tokens}.000000000000000000",` +
		`"rewards_shares":"{tokens}.000000000000000000"},"balance":{"denom":"stake","amount":"{tokens}"}}`
	lotMessage = `{"period_delegation":{"delegator_address":"{delegator}","validator_address":"{operator}","period_delegation_id":"{id}","shares":"{portion}.000000000000000000",` +
		`"rewards_shares":"{portion}.000000000000000000",{term}"end_time":"{ends}"},"balance":{"denom":"stake","amount":"{portion}"}}`
)

// noBalance is what an account has here: whatever is not staked is on the execution chain.
const noBalance = `{"balance":{"denom":"{denom}","amount":"0"}}`

// What waits in the queues of withdrawals.
const (
	withdrawal          = `{"creation_height":"{queued}","execution_address":"{checksum}","amount":"102400000{number}","validator_address":"{operator}"}`
	rewardWithdrawal    = `{"creation_height":"{queued}","execution_address":"{checksum}","amount":"800000{number}","withdrawal_type":1,"validator_address":"{operator}"}`
	communityWithdrawal = `{"creation_height":"{queued}","execution_address":"0xccCCcC0000000000000000000000000000000002","amount":"800000{number}","withdrawal_type":2}`
)

// The times in the state are fixed, so that they do not depend on when a
// devnet was started.
var (
	createdTime = time.Date(2026, 11, 20, 11, 30, 54, 282141021, time.UTC)
	releaseTime = time.Date(2026, 11, 20, 12, 1, 6, 593827838, time.UTC)
	epoch       = time.Unix(0, 0).UTC()
)

// periodTerms is how long the lots of each period type run.
var periodTerms = [...]time.Duration{0, 2 * time.Minute, 31_104_000 * time.Second, 46_656_000 * time.Second}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }
