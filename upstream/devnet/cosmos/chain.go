// Package cosmos simulates the REST API of a Cosmos SDK node: grpc-gateway's routes, parameters, statuses and headers
// for a chain whose state changes with every block.
//
// Package state has staking and its rewards. This package has accounts and transactions that were broadcast. Everything
// else is recorded: each line of documents.jsonl holds a path and its response, and each line of routes.jsonl a pattern
// of such paths with the response if there is no document.
package cosmos

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// Addresses that exist on every chain and have long lists.
const (
	WideDelegator    = "cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8"        // on every validator, 154 denominations
	PopularValidator = "cosmosvaloper1js736jheaahhg0jmqdxl0qwsqg02w70v2gxt2u" // Options.Delegators delegations
	Contract         = "cosmos14hj2tavq8fpesdwxxcu44rty3hh90vhujrvcmstl4zr3txmfvw9s4hmalr"
	VotedProposal    = "10"                                            // votes on it arrive with the blocks
	Wallet           = "cosmos10xcqpzrky6eff2g52qdye53xkk9jxkvrpq6uqr" // whose private key is 32 bytes of 1
)

// ibcDenom is the only denomination from another chain.
const ibcDenom = "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2"

// opening is the first height with transactions. In every block, the wide delegator adds to the next of its delegations
// and pays a fee.
const (
	opening = 18
	step    = 45
	fee     = 600
)

// A Chain is the state of a simulated chain. Its nodes share it.
type Chain struct {
	state.Chain
	accounts  []*account // by address
	byAddress map[string]*account
	mempool   mempool
}

// An account holds coins.
type account struct {
	raw      string
	number   int
	sequence int64 // before the first event
	coins    []coin
}

// A coin is an amount of one denomination.
type coin struct {
	Denom  string
	Amount int64
}

//go:embed validators.jsonl
var validators []byte

//go:embed accounts.jsonl
var accountLines []byte

// NewChain makes the state of a chain.
func NewChain(o state.Options) *Chain {
	c := &Chain{byAddress: map[string]*account{}}
	c.ID, c.Seed, c.Words = o.ChainID, o.Seed, words
	c.First, c.Pace, c.Step = opening, 1, step
	for _, text := range state.Lines[json.RawMessage](validators) {
		raw := fromBech32(validatorPrefix, gjson.GetBytes(text, "operator_address").String())
		c.Turns = append(c.Turns, c.AddValidator(raw, string(text), false))
		c.add(raw, 1, coin{"stake", 99_000_000})
	}
	c.populate(o.Delegators)
	c.Order()
	slices.SortFunc(c.accounts, func(a, b *account) int { return strings.Compare(a.raw, b.raw) })
	wallet := fromBech32(accountPrefix, Wallet) // it is in no list
	c.byAddress[wallet] = &account{raw: wallet, number: len(c.accounts), coins: []coin{{"stake", 1_000_000_000}}}
	return c
}

// add adds an account.
func (c *Chain) add(raw string, sequence int64, coins ...coin) {
	a := &account{raw: raw, number: len(c.accounts), sequence: sequence, coins: coins}
	c.accounts, c.byAddress[raw] = append(c.accounts, a), a
}

// populate adds the named accounts and the delegators of the popular validator.
func (c *Chain) populate(delegators int) {
	for _, a := range state.Lines[struct {
		Address  string
		Sequence int64
		Stakes   []string // operators of the validators
		Coins    []coin   // by denomination
	}](accountLines) {
		raw := fromBech32(accountPrefix, a.Address)
		c.add(raw, a.Sequence, a.Coins...)
		for _, operator := range a.Stakes {
			c.Delegate(raw, c.Validator(fromBech32(validatorPrefix, operator)), 250_000, a.Address == WideDelegator)
		}
	}
	c.Popular = c.Validator(fromBech32(validatorPrefix, PopularValidator))
	for i := range delegators - 1 { // the wide delegator is one of them
		d := state.Digest(c.Seed, "account", int64(i))
		c.add(string(d[:20]), 1, coin{"stake", 50_000_000}, coin{"token", 1_000})
		c.Delegate(string(d[:20]), c.Popular, 10_000+uint64(i), false) //nolint:gosec // not negative
	}
}

// words are the dialect's notations.
var words = state.Words{
	Account:    func(raw string) string { return state.Bech32(accountPrefix, raw) },
	Operator:   func(raw string) string { return state.Bech32(validatorPrefix, raw) },
	Prefixes:   [2]string{accountPrefix, validatorPrefix},
	Delegation: `{"delegation":{"delegator_address":"${delegator}","validator_address":"${validator}","shares":"${tokens}.000000000000000000"},"balance":{"denom":"stake","amount":"${tokens}"}}`,
	Reward:     `{"validator_address":"${validator}","reward":${reward}}`,
	Pagination: func(next string, total uint64) string {
		key := "null"
		if next != "" {
			key = `"` + state.Base64(next) + `"`
		}
		return fmt.Sprintf(`{"next_key":%s,"total":"%d"}`, key, total)
	},
}
