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

// proposalAsked finds the proposal among the arguments.
func (q *query) proposalAsked() (string, error) {
	id := q.args["proposal_id"]
	if id == "0" {
		return "", fail(invalidArgument, "proposal id can not be 0")
	}
	if p := q.proposal(id); p != "" {
		return p, nil
	}
	return "", fail(notFound, "proposal %s doesn't exist", id)
}

func proposals(q *query) ([]byte, error) {
	var some []string
	for id := 1; q.proposal(strconv.Itoa(id)) != ""; id++ {
		p := q.proposal(strconv.Itoa(id))
		status := q.args["proposal_status"]
		if status == "" || status == proposalStatuses[0] || gjson.Get(p, "status").String() == status {
			some = append(some, p)
		}
	}
	return q.page.render(listing{
		name: "proposals", size: len(some),
		key:  func(i int) string { return fmt.Sprintf("%08d", gjson.Get(some[i], "id").Int()) },
		item: func(i int) string { return some[i] },
	})
}

func proposalOf(q *query) ([]byte, error) {
	p, err := q.proposalAsked()
	return fmt.Appendf(nil, `{"proposal":%s}`, p), err
}

// legacyProposals fails: one proposal that v1beta1 cannot show spoils the list.
func legacyProposals(*query) ([]byte, error) { return nil, errLegacy }

var errLegacy = fail(unknown, "codespace sdk code 29: invalid type: can't convert a gov/v1 Proposal to gov/v1beta1 Proposal when amount of proposal messages not exactly one")

func legacyProposalOf(q *query) ([]byte, error) {
	if _, err := q.proposalAsked(); err != nil {
		return nil, err
	}
	if body, err := document(q); err == nil {
		return body, nil
	}
	return nil, errLegacy
}

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

// choices are the options of a vote, without their prefix, as tallies count them.
var choices = []string{"YES", "ABSTAIN", "NO", "NO_WITH_VETO"}

// choice is what an account votes for.
func choice(a *account) int { return int(a.raw[0]) % len(choices) }

func voteJSON(id string, a *account, extra, last string) string {
	return fmt.Sprintf(`{"proposal_id":%q,"voter":%q,%s"options":[{"option":"VOTE_OPTION_%s","weight":"1.000000000000000000"}]%s}`,
		id, accountText(a.raw), extra, choices[choice(a)], last)
}

// votes serves the votes in the form of v1 or v1beta1.
func votes(extra, last string) func(*query) ([]byte, error) {
	return func(q *query) ([]byte, error) {
		id := q.args["proposal_id"]
		voters := q.voters(id)
		return q.page.render(listing{
			name: "votes", size: len(voters),
			key:  func(i int) string { return prefixed(voters[i].raw) },
			item: func(i int) string { return voteJSON(id, voters[i], extra, last) },
		})
	}
}

// The fields that the two versions add to a vote.
const (
	v1Vote     = `,"metadata":""`
	legacyVote = `"option":"VOTE_OPTION_UNSPECIFIED",`
)

func voteOf(q *query) ([]byte, error) {
	raw, err := q.account("voter")
	if err != nil {
		return nil, err
	}
	id := q.args["proposal_id"]
	for _, a := range q.voters(id) {
		if a.raw == raw {
			return fmt.Appendf(nil, `{"vote":%s}`, voteJSON(id, a, "", v1Vote)), nil
		}
	}
	return nil, fail(invalidArgument, "voter: %s not found for proposal: %s", q.args["voter"], id)
}

// tally counts what the voters hold, or says how the vote ended.
func tally(suffix string) func(*query) ([]byte, error) {
	return func(q *query) ([]byte, error) {
		p, err := q.proposalAsked()
		if err != nil {
			return nil, err
		}
		var counts [4]int64
		for i, name := range []string{"yes", "abstain", "no", "no_with_veto"} {
			counts[i] = gjson.Get(p, "final_tally_result."+name+"_count").Int()
		}
		for _, a := range q.voters(q.args["proposal_id"]) {
			for _, k := range a.stakes {
				counts[choice(a)] += q.tokens(k)
			}
		}
		return fmt.Appendf(nil, `{"tally":{"yes%[1]s":"%[2]d","abstain%[1]s":"%[3]d","no%[1]s":"%[4]d","no_with_veto%[1]s":"%[5]d"}}`,
			suffix, counts[0], counts[1], counts[2], counts[3]), nil
	}
}
