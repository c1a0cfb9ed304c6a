package cosmos

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Addresses that are part of every chain and have much to tell.
const (
	WideDelegator    = "cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8"        // on every validator, 154 denominations
	PopularValidator = "cosmosvaloper1js736jheaahhg0jmqdxl0qwsqg02w70v2gxt2u" // Options.Delegators delegations
	Contract         = "cosmos14hj2tavq8fpesdwxxcu44rty3hh90vhujrvcmstl4zr3txmfvw9s4hmalr"
	VotedProposal    = "10" // its votes come in as blocks go by
)

// IBCDenom and FactoryDenom are denominations with a slash.
const (
	IBCDenom     = "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2"
	FactoryDenom = "factory/" + WideDelegator + "/sub/coin"
)

// A member is a validator as the cast has it.
type member struct {
	Operator, Consensus, Key string
	Moniker, Rate            string
	Tokens                   int64
	Jailed                   bool
}

// An extra is an account that plays a part.
type extra struct {
	Address  string
	Sequence int64
	Denoms   string   // beside stake, by name
	Stakes   []string // the operators of the validators
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

// vesting is the account that cannot spend all it has.
const vesting = "cosmos18fp56u8ule3z98rtrpf9m5avjvsgtkaccz9lcf"

// manyDenoms is how many denominations "many" is.
const manyDenoms = 150

// coins are what the account has, by denomination.
func (e extra) coins() []coin {
	var coins []coin
	for _, denom := range append(strings.Fields(e.Denoms), "stake") {
		switch denom {
		case "many":
			for i := range manyDenoms {
				coins = append(coins, coin{fmt.Sprintf("denom%03d", i), 1000 + int64(i)})
			}
			coins = append(coins, coin{FactoryDenom, 55_555}, coin{IBCDenom, 123_456_789})
		case "stake":
			coins = append(coins, coin{"stake", 90_000_000_000})
		default:
			coins = append(coins, coin{denom, 100_000_000})
		}
	}
	slices.SortFunc(coins, func(a, b coin) int { return strings.Compare(a.denom, b.denom) })
	return coins
}
