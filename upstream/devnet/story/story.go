// Package story simulates the REST API of a Story node: its routes, its envelope and its texts. Staking and its rewards
// change with the blocks. Everything else is a document: each line of documents.jsonl has the pattern of a path and its
// response. In it, ${height}, ${age} and ${chain} are values of the chain, and any other ${name} is a parameter of the
// request. validators.jsonl has the recorded validators.
package story

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// Addresses that exist on every chain and have long lists.
const (
	PopularValidator  = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0" // Options.Delegators delegations
	WideDelegator     = "0x243b338be72573f04688f16dbc05e281517330d0" // on many validators
	PeriodicDelegator = "0xa82f5d1f204b382d90ca549b695aedb7fde14817" // many period delegations on PopularValidator
)

//go:embed documents.jsonl
var documents []byte

//go:embed validators.jsonl
var validators []byte

// named are recorded delegators of PopularValidator.
var named = []string{PeriodicDelegator, "0x5244f20ed88040a6e54be2bd26f68d993d71b8fd"}

// wide is the number of validators that WideDelegator delegates to.
const wide = 61

// step is the minimum amount of a delegation.
const step = 1_024_000_000_000

// A Chain is the state of a simulated chain. Its nodes share it.
type Chain struct{ state.Chain }

// NewChain makes a chain.
func NewChain(o state.Options) *Chain {
	c := &Chain{}
	c.ID, c.Seed, c.Words = o.ChainID, o.Seed, words
	c.First, c.Pace, c.Step = 5, 5, step
	recorded := state.Lines[json.RawMessage](validators)
	for i := range o.Validators {
		raw, text := digest(o.Seed, "validator", i), string(recorded[min(i, len(recorded)-1)])
		operator := gjson.Get(text, "operator_address").String()
		if i < len(recorded) {
			raw = fromHex(operator)
		}
		v := c.AddValidator(raw, strings.Replace(text, operator, hexText(raw), 1), true)
		if i < wide {
			c.Delegate(fromHex(WideDelegator), v, 2*step, true)
		}
		if v.Status == state.Bonded {
			c.Turns = append(c.Turns, v)
		}
		if len(c.Turns)%3 == 2 { // every third event belongs to the popular validator
			c.Turns = append(c.Turns, c.Validators[0])
		}
	}
	c.Popular = c.Validators[0]
	for i := range o.Delegators - 2 { // the popular validator and the wide delegator come on top
		who := digest(o.Seed, "delegator", i)
		if i < len(named) {
			who = fromHex(named[i])
		}
		c.Delegate(who, c.Popular, step+uint64(i), true) //nolint:gosec // not negative
	}
	c.Order()
	return c
}

func digest(seed uint64, what string, i int) string {
	d := state.Digest(seed, what, int64(i))
	return string(d[:20])
}
