package cosmos

import (
	"fmt"
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

// errLegacy is about a proposal that v1beta1 cannot show.
var errLegacy = fail(unknown, "codespace sdk code 29: invalid type: can't convert a gov/v1 Proposal to gov/v1beta1 Proposal when amount of proposal messages not exactly one")

func legacyProposal(q *query, _ string) (string, error) {
	return documentElse(failing(errLegacy))(q)
}

// votesPerBlock is how many tokens vote with yes in each block.
const votesPerBlock = 45_000

// tally counts the votes, or says how the vote ended. The names of its counts have a suffix.
func tally(suffix string) handler {
	return ofProposal(func(q *query, p string) (string, error) {
		var counts []string
		for i, name := range []string{"yes", "abstain", "no", "no_with_veto"} {
			count := gjson.Get(p, "final_tally_result."+name+"_count").Int()
			if q.args["proposal_id"] == VotedProposal {
				count += votesPerBlock * (q.height - voting) / int64(i+1)
			}
			counts = append(counts, fmt.Sprintf(`"%s%s":"%d"`, name, suffix, count))
		}
		return fmt.Sprintf(`{"tally":{%s}}`, strings.Join(counts, ",")), nil
	})
}
