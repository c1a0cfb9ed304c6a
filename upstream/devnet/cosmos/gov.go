package cosmos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// proposal is a proposal by its number; "" for none.
func (s state) proposal(id string) string {
	if id == VotedProposal && s.height < voting {
		return ""
	}
	return gjson.Get(documents()["/cosmos/gov/v1/proposals/"+id], "proposal").Raw
}

// ofProposal serves the proposal that the path names.
func ofProposal(serve func(q *query, proposal string) (string, error)) handler {
	return func(q *query) (string, error) {
		id := q.args["proposal_id"]
		if id == "0" {
			return "", fail(invalidArgument, "proposal id can not be 0")
		}
		p := q.proposal(id)
		if p == "" {
			return "", fail(notFound, "proposal %s doesn't exist", id)
		}
		return serve(q, p)
	}
}

func proposalOf(_ *query, p string) (string, error) { return fmt.Sprintf(`{"proposal":%s}`, p), nil }

func proposals(q *query) (string, error) {
	status := q.args["proposal_status"]
	var some []string
	for id := 1; q.proposal(strconv.Itoa(id)) != ""; id++ {
		p := q.proposal(strconv.Itoa(id))
		if status == "" || status == proposalStatuses[0] || gjson.Get(p, "status").String() == status {
			some = append(some, p)
		}
	}
	return list(q, "proposals", some, func(p string) string { return fmt.Sprintf("%08d", gjson.Get(p, "id").Int()) }, func(p string) string { return p })
}

// errLegacy fails the list of v1beta1, too: one proposal that it cannot show spoils it.
var errLegacy = fail(unknown, "codespace sdk code 29: invalid type: can't convert a gov/v1 Proposal to gov/v1beta1 Proposal when amount of proposal messages not exactly one")

func legacyProposalOf(q *query, _ string) (string, error) { return documentElse(failing(errLegacy))(q) }

// voters are those who have voted on the proposal that is being voted on.
func (s state) voters(id string) []*account {
	if id != VotedProposal || s.height < voting {
		return nil
	}
	count := min(3*(s.height-voting), int64(len(s.stakes)))
	voters := make([]*account, 0, count)
	for _, k := range s.stakes[:count] {
		if k.to.operator == popular {
			voters = append(voters, k.who)
		}
	}
	slices.SortFunc(voters, func(a, b *account) int { return strings.Compare(a.raw, b.raw) })
	return voters
}

// choices are the options of a vote, without their prefix.
var choices = []string{"YES", "ABSTAIN", "NO", "NO_WITH_VETO"}

// choice is what an account votes for.
func choice(a *account) int { return int(a.raw[0]) % len(choices) }

func voteJSON(id string, a *account, extra, last string) string {
	return fmt.Sprintf(`{"proposal_id":%q,"voter":%q,%s"options":[{"option":"VOTE_OPTION_%s","weight":"1.000000000000000000"}]%s}`,
		id, accountText(a.raw), extra, choices[choice(a)], last)
}

// votes serves the votes in the form of v1 or v1beta1.
func votes(extra, last string) handler {
	return func(q *query) (string, error) {
		id := q.args["proposal_id"]
		return list(q, "votes", q.voters(id), func(a *account) string { return prefixed(a.raw) },
			func(a *account) string { return voteJSON(id, a, extra, last) })
	}
}

// The fields that the two versions add to a vote.
const (
	v1Vote     = `,"metadata":""`
	legacyVote = `"option":"VOTE_OPTION_UNSPECIFIED",`
)

func voteOf(q *query) (string, error) {
	id := q.args["proposal_id"]
	for _, a := range q.voters(id) {
		if a.raw == q.delegator {
			return fmt.Sprintf(`{"vote":%s}`, voteJSON(id, a, "", v1Vote)), nil
		}
	}
	return "", fail(invalidArgument, "voter: %s not found for proposal: %s", q.args["voter"], id)
}

// tally counts what the voters hold, or says how the vote ended. The names of its counts
// have a suffix.
func tally(suffix string) handler {
	return ofProposal(func(q *query, p string) (string, error) {
		var held [4]int64
		for _, a := range q.voters(q.args["proposal_id"]) {
			for _, k := range a.stakes {
				held[choice(a)] += q.tokens(k)
			}
		}
		counts := make([]string, len(choices))
		for i, name := range choices {
			name = strings.ToLower(name)
			counts[i] = fmt.Sprintf(`"%s%s":"%d"`, name, suffix, held[i]+gjson.Get(p, "final_tally_result."+name+"_count").Int())
		}
		return fmt.Sprintf(`{"tally":{%s}}`, strings.Join(counts, ",")), nil
	})
}
