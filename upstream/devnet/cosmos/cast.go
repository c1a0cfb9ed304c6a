package cosmos

import (
	"fmt"
	"slices"
	"strings"
)

// Addresses that are part of every chain and have much to tell.
const (
	WideDelegator    = "cosmos1t3mw6fkk9nr558qy6jphu726glyjpl0w8kalv8"        // on every validator, 154 denominations
	PopularValidator = "cosmosvaloper1js736jheaahhg0jmqdxl0qwsqg02w70v2gxt2u" // Options.Delegators delegations
	Contract         = "cosmos14hj2tavq8fpesdwxxcu44rty3hh90vhujrvcmstl4zr3txmfvw9s4hmalr"
	VotedProposal    = "10" // its votes come in as blocks go by
)

const popular = PopularValidator

// IBCDenom and FactoryDenom are denominations with a slash.
const (
	IBCDenom     = "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2"
	FactoryDenom = "factory/" + WideDelegator + "/sub/coin"
)

// A member is a validator as the cast has it.
type member struct {
	operator, consensus, key string
	moniker, rate            string
	tokens                   int64
	jailed                   bool
}

// members are the validators.
var members = []member{
	{"cosmosvaloper1njduk4r80p6axplux2yrh06vpxvfq6a63w0vv9", "cosmosvalcons1d3fqeqw86clttft5hmd0j63tl7tkylsu0u7chq", "R1PdgB3oYu3UBqKURqI1s1LLsCkyL9v2CfDKK0Cu4SI=", "tip", "0.100000000000000000", 500_000_000_000, false},
	{PopularValidator, "cosmosvalcons1g2wsxrsn72wjzqxzdua4v3l6wzt6jer4s3wpfe", "E57beycpL3wQ4cjEGRxjYMcGPWQwuOCPCy/At3y+YCw=", "validator val1", "0.050000000000000000", 20_000_000, false},
	{"cosmosvaloper1ntfern9lkr8ltzplla45ljjlrgkagvmgy0s33r", "cosmosvalcons1chkx2n2mgu58g50vygkwucn9hd6yh6xg6pgz3v", "qzXt9kbjn3hWEqCUZ2yLvC4haz0pSt5bwNOOa97TAwk=", "validator val2", "0.060000000000000000", 23_000_000, false},
	{"cosmosvaloper12w5cn228qyd3f3n0r97a726w3l5fgktcl4d5s9", "cosmosvalcons1xyspyrafvs57he2tz3l0nhslhfwhp6ahtpymc3", "frkCb2nF/rberUqNGMRxvf+YZZ1UcS7aYzZzfzGKEV0=", "validator val3", "0.070000000000000000", 24_000_000, false},
	{"cosmosvaloper1ycarsj4jg83qafcw5gmdmnms457hl0uzwh3lvd", "cosmosvalcons1407egknv4y2yr6r9vqquydy04k77pajxeqahcz", "efNHV5qaQS2U+695zL5m05JXDVdQK4GonkFnCpCVpw8=", "validator val4", "0.080000000000000000", 11_000_000, true},
}

// Validators are the operator addresses of all validators.
func Validators() []string {
	operators := make([]string, len(members))
	for i, m := range members {
		operators[i] = m.operator
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

// An extra is an account that plays a part.
type extra struct {
	address  string
	sequence int64
	denoms   string // beside stake, by name
	stakes   []string
}

// second is the validator of the delegators that have names.
const second = "cosmosvaloper1ntfern9lkr8ltzplla45ljjlrgkagvmgy0s33r"

// extras are the accounts with a part.
var extras = []extra{
	{WideDelegator, 0, "many token", []string{members[0].operator, popular, second, members[3].operator, members[4].operator}},
	{"cosmos1ttacxvxtejnhmxdylg9qllqzlxy0lsjhqdkz0v", 3, FactoryDenom + " " + IBCDenom + " token", []string{second}},
	{"cosmos1nylyr56chhcjpqg8gyede9zvmv0hxm5a345ru5", 2, "token", []string{second}},
	{"cosmos1x0s6aam3f6q93874det2mhya0t62hawqd8a28s", 2, "token", []string{second}},
	{"cosmos1sh83l67cqyvlw27sca2wxnylnhpr4g4dxhqj9q", 2, "token", []string{second}}, // withdraws to another
	{"cosmos1cggzlm5f99tgzgdglf2tlk0rm6mytjxnnafawx", 2, "token", nil},
	{"cosmos14htu3mfnhyxa587h95ca39yncaxhvhl9pv6k7z", 2, "token", nil},
	{"cosmos1k5m0d7t426szpuslgtz06qwlcj6szx9zws93yx", 2, "token", nil}, // group admin
	{"cosmos1tjkxy5jn2nma5584c47d83r0udvv025gx5630l", 2, "token", nil}, // contract owner
	{redelegator, 2, "token", []string{second}},
	{"cosmos12kutx3kczqewx4jz7wte4fenenh7z3m257zlez", 23, "token", nil},
	{"cosmos1yt3j88qc9e23wvh8ah5nfhw2q6p6kgy4gutgrh", 34, "token", nil},
	{vesting, 0, "", nil},
	{periodicVesting, 0, "", nil},
	{"cosmos1k3gnsz6qqqsmffn9xakrk0zmgsx6ejdjfc46p2", 0, "", nil}, // no public key yet
	{Contract, 0, "many", nil},
}

// redelegator has moved a stake; the vesting accounts cannot spend all they have.
const (
	redelegator     = "cosmos1emt9cnj8j0a5xl4mqwsvcvp8lgjad7h5a2uqpy"
	vesting         = "cosmos18fp56u8ule3z98rtrpf9m5avjvsgtkaccz9lcf"
	periodicVesting = "cosmos1wle8dc3cl88ks0ya9wywyw6q9g46dvcng0dpct"
)

// manyDenoms is how many denominations "many" is.
const manyDenoms = 150

// coins are what the account has, by denomination.
func (e extra) coins() []coin {
	var coins []coin
	for _, denom := range append(strings.Fields(e.denoms), "stake") {
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
