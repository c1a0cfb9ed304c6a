package docs

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
)

// A parameterText says what a parameter means and which values it takes.
type parameterText struct {
	doc    string
	schema huma.Schema
}

// Values of parameters, as one should write them: more than this is understood.
var (
	validatorValue = huma.Schema{Type: huma.TypeString, Pattern: addressPattern("storyvaloper")}
	accountValue   = huma.Schema{Type: huma.TypeString, Pattern: addressPattern("story")}
	publicKeyValue = huma.Schema{Type: huma.TypeString, Pattern: "^0[xX]0[23][0-9a-fA-F]{64}$"}
	digitsValue    = huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]{1,20}$"}
	textValue      = huma.Schema{Type: huma.TypeString}
	numberValue    = huma.Schema{Type: huma.TypeString, Format: "uint64", Pattern: "^[0-9]{1,19}$"}
	booleanValue   = huma.Schema{Type: huma.TypeBoolean}
	heightValue    = huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(1.0)}
	statusValue    = huma.Schema{Type: huma.TypeString, Enum: []any{
		"1", "2", "3", "unbonded", "unbonding", "bonded",
		"BOND_STATUS_UNBONDED", "BOND_STATUS_UNBONDING", "BOND_STATUS_BONDED",
	}}
)

func addressPattern(prefix string) string {
	return "^(0[xX][0-9a-fA-F]{40}|" + prefix + "1[02-9ac-hj-np-z]{38})$"
}

// parameterTexts are those of the paths and queries, of pages and of headers.
var parameterTexts = map[string]parameterText{
	"validator_addr":     {"Address of the validator: hex, or bech32 with `storyvaloper`.", validatorValue},
	"src_validator_addr": {"Address of the validator that the stake has left.", validatorValue},
	"dst_validator_addr": {"Address of the validator that the stake has gone to.", validatorValue},
	"delegator_addr":     {"Address of the delegator: hex, or bech32 with `story`.", accountValue},
	"delegator_address":  {"Address of the delegator: hex, or bech32 with `story`.", accountValue},
	"address":            {"Address of the account: hex, or bech32 with `story`.", accountValue},
	"pubkey":             {"Compressed secp256k1 public key of the validator: `0x` and 66 hex digits.", publicKeyValue},
	"height":             {"Height of the block.", numberValue},
	"starting_height":    {"Height of the first block.", numberValue},
	"ending_height":      {"Height of the last block.", numberValue},
	"id":                 {"Id of the period delegation. Leading zeros count.", digitsValue},
	"denom":              {"The denomination, such as `stake`.", textValue},
	"module_name":        {"Name of the module.", textValue},
	"name":               {"Name of the upgrade.", textValue},
	"status":             {"Only validators of this status. Case does not matter.", statusValue},

	chain.PageKey:        {"The `next_key` of the page before. It carries the block at which that page was read, and this one is read there, too, unless the request names another. Not together with `pagination.offset`.", textValue},
	chain.PageOffset:     {"Items to skip. Following `pagination.key` costs less.", numberValue},
	chain.PageLimit:      {"Items on the page. Without it, or with 0, it is 100.", numberValue},
	chain.PageCountTotal: {"Whether to count all items, into `pagination.total`. Not done with a `pagination.key`; always done without a limit.", booleanValue},
	chain.PageReverse:    {"Whether the last items come first.", booleanValue},

	web.HeightHeader:    {"Read at this block in place of the newest. What has been read once never changes.", heightValue},
	web.MinHeightHeader: {"Wait until this block has come, then read the newest.", heightValue},
	web.MinEVMHeader:    {"Wait until this block of the execution chain counts, so that a client sees its own stake or registration: in the chain's state, which takes in what a block did with the block after it, or in the store of collections. Refused where no node tells of such blocks, or no indexer fills the store.", heightValue},
	ifNoneMatch:         {"The `ETag` of what the client has. If that is still the answer, the status is 304 and there is no body.", textValue},
}

// headerTexts are the headers of responses, each with an example.
var headerTexts = map[string]struct{ doc, example string }{
	web.HeightHeader:    {"The block the answer holds at. Absent while the newest block is not known, and where the chain was not asked.", "228"},
	web.EVMBlockHeader:  {"Everything up to this block of the execution chain is counted on the page. Absent where that is not known: no indexer fills the store, for one.", "18400000"},
	etagHeader:          {"Changes with the content, not with the block.", `"bj2GbHE0Ff_1oc0SKSHQGw"`},
	cacheControlHeader:  {"How long the answer may be used without asking again.", "public, max-age=61"},
	ageHeader:           {"Seconds since the answer was last known to be true; absent when it was read for this request.", "0"},
	cacheStatusHeader:   {"Where the answer came from, and for how many more seconds it is fresh (RFC 9211). The `detail` says when it is stale, when freshness is in seconds because the newest block is not known, and when the nodes are catching up with their chain.", "tipcache; hit; ttl=61; detail=memory"},
	linkHeader:          {"With `rel=\"next\"`, the next page. With `rel=\"describedBy\"`, the schema of the body.", `</api/v4/CollectionPage.json>; rel="describedBy"`},
	web.RequestIDHeader: {"Names the request in the server's log. A request may bring its own.", "JQ2FOLJNQDNB7AMGT4RBDWYRF3"},
	retryAfterHeader:    {"Seconds after which it makes sense to try again.", "1"},
	web.UnknownHeader:   {"Parameters of the query that were ignored, and look like a slip of the pen.", "limit (did you mean pagination.limit?)"},
	rateLimitHeader:     {"Where there is a limit: `r` requests may follow at once, and in `t` seconds as many as ever.", `"address";r=99;t=1`},
	ratePolicyHeader:    {"Where there is a limit: `q` requests may come at once, and again after `w` seconds.", `"address";q=100;w=1`},
	authenticateHeader:  {"How to authenticate.", `ApiKey header="X-Api-Key"`},
}

// schemaTexts are the components that have a title.
var schemaTexts = map[string]string{
	"Coin":               "An amount of a denomination.",
	"DecCoin":            "An amount of a denomination that need not be whole.",
	"Pagination":         "Where the list goes on.",
	"Validator":          "A validator.",
	"DelegationEntry":    "A delegation and what it is worth.",
	"PeriodDelegation":   "A part of a delegation, bound for a period.",
	"Reward":             "What a delegation has earned, in one denomination.",
	"RedelegationRecord": "Stake that moves from one validator to another, as the node shows it.",
	"RedelegationEntry":  "A part of it.",
	"StakingParams":      "What governs staking.",
	"DistributionParams": "What governs the distribution of rewards.",
	"AuthParams":         "What governs transactions.",
}

// memberTexts are the members of objects: by name, or by their place where the
// same name means something else.
var memberTexts = map[string]string{
	"validators":             "The validators.",
	"validator":              "The validator.",
	"delegation_responses":   "The delegations.",
	"delegation_response":    "The delegation.",
	"redelegation_responses": "The redelegations.",
	"rewards":                "The rewards.",
	"params":                 "The parameters.",
	"pagination":             "Where the list goes on.",

	"Pagination.total":        "How many items there are on all pages; `0` where they were not counted.",
	"Pagination.next_key":     "The `pagination.key` of the next page, which is read at the block of this one. Absent on the last page.",
	"delegator_rewards.total": "The sums of all rewards, by denomination. Null where there are delegations but no rewards.",

	"denom":          "The denomination.",
	"amount":         "How much, in its smallest unit.",
	"DecCoin.amount": "How much, in its smallest unit and fractions of it.",

	"operator_address":         "Address of the validator.",
	"consensus_pubkey":         "The key it signs blocks with.",
	"type":                     "The kind of key.",
	"value":                    "The key, in base64.",
	"jailed":                   "Whether it is barred from validating. Absent: no.",
	"status":                   "1 unbonded, 2 unbonding, 3 bonded.",
	"tokens":                   "Tokens delegated to it.",
	"delegator_shares":         "Shares given for them.",
	"description":              "What it says of itself.",
	"moniker":                  "Its name.",
	"identity":                 "Its identity elsewhere, such as a Keybase fingerprint.",
	"website":                  "Its website.",
	"security_contact":         "Where to report a problem to.",
	"details":                  "Anything else.",
	"unbonding_height":         "The block at which it began to unbond. Absent: never.",
	"unbonding_time":           "When it will have unbonded.",
	"unbonding_ids":            "Ids of what is unbonding from it.",
	"commission":               "Its part of the rewards of its delegators.",
	"commission_rates":         "The rates.",
	"rate":                     "The rate at present.",
	"max_rate":                 "The rate it will never exceed.",
	"max_change_rate":          "The most the rate changes in a day.",
	"update_time":              "When the rate last changed.",
	"min_self_delegation":      "What it must at least have delegated to itself.",
	"support_token_type":       "The tokens it accepts: 1 unlocked. Absent, or 0: locked.",
	"rewards_tokens":           "Tokens delegated to it, weighed for rewards.",
	"delegator_rewards_shares": "Shares given for them, weighed for rewards.",

	"delegation":           "The delegation.",
	"delegator_address":    "Address of the delegator.",
	"validator_address":    "Address of the validator.",
	"shares":               "The share in the validator's tokens.",
	"rewards_shares":       "The share in the validator's rewards.",
	"balance":              "What it is worth now.",
	"period_delegation_id": "Id of the period delegation; `0` is not bound.",
	"period_type":          "The period, one of the staking parameters. Absent, or 0: not bound.",
	"end_time":             "When the period ends.",

	"Reward.validator_address": "Address of the validator, as bech32.",
	"reward":                   "What was earned. The denomination is empty where there was nothing.",

	"redelegation": "From where to where.",
	"RedelegationRecord.redelegation.entries": "Null: they stand beside.",
	"validator_src_address":                   "Address of the validator it has left.",
	"validator_dst_address":                   "Address of the validator it has gone to.",
	"entries":                                 "Its parts.",
	"redelegation_entry":                      "When and how much.",
	"creation_height":                         "The block it began at.",
	"completion_time":                         "When it is settled.",
	"initial_balance":                         "Tokens at the beginning.",
	"shares_dst":                              "Shares given for them.",
	"unbonding_id":                            "Its id among what is unbonding.",

	"StakingParams.unbonding_time": "Nanoseconds until stake that leaves is paid out.",
	"max_validators":               "Validators there can be.",
	"max_entries":                  "Parts of stake that can leave one validator at a time, for one delegator.",
	"historical_entries":           "Blocks whose validators are remembered.",
	"bond_denom":                   "The denomination that is staked.",
	"min_commission_rate":          "The least a validator must take.",
	"min_delegation":               "The least that can be delegated.",
	"periods":                      "Periods that stake can be bound for.",
	"duration":                     "Nanoseconds.",
	"rewards_multiplier":           "What it multiplies the share in rewards by.",
	"token_types":                  "Kinds of tokens.",
	"token_type":                   "The kind. Absent from the first, which is 0: locked.",
	"singularity_height":           "The block from which on there are rewards.",

	"StakingParams.periods.period_type": "The period. Absent from the first, which is 0: not bound.",

	"ubi":                   "Part of the inflation that is set aside for everybody.",
	"max_ubi":               "The most that part can be.",
	"base_proposer_reward":  "Part of a block's fees for its proposer.",
	"bonus_proposer_reward": "Part of a block's fees for a proposer that includes all votes.",
	"withdraw_addr_enabled": "Whether rewards can be sent to another address.",

	"max_memo_characters":       "Characters in a transaction's memo.",
	"tx_sig_limit":              "Signatures on a transaction.",
	"tx_size_cost_per_byte":     "Gas for a byte of a transaction.",
	"sig_verify_cost_ed25519":   "Gas for an Ed25519 signature.",
	"sig_verify_cost_secp256k1": "Gas for a secp256k1 signature.",
}
