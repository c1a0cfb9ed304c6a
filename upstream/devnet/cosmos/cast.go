package cosmos

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// Addresses that are part of every chain and have much to tell.
const (
	WideDelegator    = "cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8"        // on every validator, 154 denominations
	PopularValidator = "cosmosvaloper1js736jheaahhg0jmqdxl0qwsqg02w70v2gxt2u" // Options.Delegators delegations
	Contract         = "cosmos14hj2tavq8fpesdwxxcu44rty3hh90vhujrvcmstl4zr3txmfvw9s4hmalr"
	VotedProposal    = "10"                                            // its votes come in as blocks go by
	Wallet           = "cosmos10xcqpzrky6eff2g52qdye53xkk9jxkvrpq6uqr" // whose private key is 32 bytes of 1
)

// ibcDenom is the one denomination that came from another chain.
const ibcDenom = "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2"

// A member is a validator as the cast has it.
type member struct {
	Operator, Consensus, Key string
	Moniker, Rate            string
	Tokens                   int64
	Jailed                   bool
}

// An extra is an account of the cast that is not a validator's.
type extra struct {
	Address  string
	Sequence int64
	Stakes   []string // the operators of the validators
	Coins    []coin   // by denomination
}

//go:embed cast.json
var castFile []byte

// cast is the content of castFile.
var cast = sync.OnceValue(func() (c struct {
	Validators []member
	Accounts   []extra
}) {
	if err := json.Unmarshal(castFile, &c); err != nil {
		panic("cosmos: cast.json: " + err.Error())
	}
	return c
})

// Validators are the operator addresses of all validators.
func Validators() []string {
	var operators []string
	for _, m := range cast().Validators {
		operators = append(operators, m.Operator)
	}
	return operators
}

// Delegators are the addresses that delegate to PopularValidator, in order.
func (c *Chain) Delegators() []string {
	stakes := c.layout.operated(PopularValidator).stakes
	addresses := make([]string, len(stakes))
	for i, s := range stakes {
		addresses[i] = accountText(s.who.raw)
	}
	return addresses
}
