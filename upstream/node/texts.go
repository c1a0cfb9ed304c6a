package node

import (
	"regexp"
	"strconv"
)

// An api is an interface of a node whose errors are classified by their texts. The REST server of the Cosmos SDK is not
// one of them: its errors are classified by status and code.
type api uint8

const (
	storyREST api = 1 << iota
	abciQuery     // log of a response
	cometRPC      // data of an error
	grpcUnrun     // message of a status if no handler ran

	anyState = storyREST | abciQuery | grpcUnrun
)

// unreadable matches the beginning of an error for an unreadable height, with the prefixes of the interfaces. Quoted
// input cannot match, because prefixes other than the codespace have neither digits nor punctuation.
const unreadable = `^(?:codespace sdk code \d+: )?(?:[a-z ]+: )*`

// errorTexts maps error texts to reasons. The first matching row of the interface decides. Rows of storyREST whose texts
// quote the client's input precede the rows that the input could match.
//
// testdata/failures.jsonl holds a real node's responses for each row of storyREST. Responses whose names begin with source_
// were not recorded, but written by hand according to the source code of a newer release.
var errorTexts = []struct {
	by     api
	text   *regexp.Regexp
	reason Reason
}{
	{anyState, regexp.MustCompile(unreadable + `failed to load state at height \d+; `), Pruned},
	{anyState, regexp.MustCompile(unreadable + `cannot query with height in the future`), FutureHeight},
	{anyState, regexp.MustCompile(unreadable + `cannot query with height < 0`), BadInput},
	{abciQuery, regexp.MustCompile(`^version does not exist$`), Pruned}, // one of the application's stores has pruned the height; the response has the code of a success
	{grpcUnrun, regexp.MustCompile(`context did not contain latest block height`), Other},

	{cometRPC, regexp.MustCompile(`^height \d+ must be less than or equal to the current blockchain height`), FutureHeight},
	{cometRPC, regexp.MustCompile(`^height \d+ is not available, lowest height is`), Pruned},
	{cometRPC, regexp.MustCompile(`^could not find (?:results|validator set|consensus params) for height`), Pruned},
	{cometRPC, regexp.MustCompile(`^node is not persisting (?:abci|finalize block) responses`), Pruned},
	{cometRPC, regexp.MustCompile(`^tx \([0-9A-Fa-f]*\) not found$`), NotFound},
	{cometRPC, regexp.MustCompile(`^transaction hash cannot be empty`), BadInput},
	{cometRPC, regexp.MustCompile(`^height must be greater than 0, but got|^heights must be non-negative|^min height -?\d+ can't be greater than max height`), BadInput},
	{cometRPC, regexp.MustCompile(`^page should be within \[1, \d+\] range, given|order_by`), BadInput},
	{cometRPC, regexp.MustCompile(`^(?:block|transaction) indexing is disabled$`), BadInput},
	{cometRPC, regexp.MustCompile(`^maximum query length exceeded|^failed to parse query|^offset \d+: |^compile |parse error near|^query cannot be empty`), BadInput},
	{cometRPC, regexp.MustCompile(`^error during (?:searching for a hash in|parsing conditions from) the query|^error while retrieving the result: transaction hash cannot be empty`), BadInput},
	{cometRPC, regexp.MustCompile(`^runtime error: |^reflect: Call `), BadInput},                    // a panic because of the parameters, such as /block?height="
	{cometRPC, regexp.MustCompile(`^error converting (?:json|http) params to arguments`), BadInput}, // over WebSocket, or in other versions
	{cometRPC, regexp.MustCompile(`^[Tt]x (?:too large|already exists in cache)|^tx pre check: |^(?:no evidence was provided|evidence\.ValidateBasic failed|failed to add evidence)`), BadInput},
	{cometRPC, regexp.MustCompile(`^mempool is |^broadcast confirmation not received|^timed out waiting for tx|^error on broadcastTxCommit|^max_subscription`), BadInput},
	{cometRPC, regexp.MustCompile(`^genesis response is large|^there are \d+ chunks|^service configuration error, `), BadInput},

	{grpcUnrun, regexp.MustCompile(`^grpc: error unmarshalling request: `), BadInput},

	{storyREST, regexp.MustCompile(`illegal base64 data`), BadInput},    // a raw page key, at a node of Base64Keys
	{storyREST, regexp.MustCompile("decode `"), BadInput},               // a parameter of the wrong type
	{storyREST, regexp.MustCompile(`code = InvalidArgument`), BadInput}, // an empty address, a bad denom, an unknown status
	{storyREST, regexp.MustCompile(`strconv\.`), BadInput},              // a height in the path that is not a number
	{storyREST, regexp.MustCompile(`code = NotFound`), NotFound},
	{storyREST, regexp.MustCompile(`not found`), NotFound},
	{storyREST, regexp.MustCompile(`does not exist`), NotFound},
	{storyREST, regexp.MustCompile(`no delegation for \(address, validator\) tuple`), NotFound},
	{storyREST, regexp.MustCompile(`hex string`), BadInput}, // without 0x, of odd length, invalid
	{storyREST, regexp.MustCompile(`address max length is`), BadInput},
	{storyREST, regexp.MustCompile(`either offset or key is expected`), BadInput},
	{storyREST, regexp.MustCompile(`^requester_pub_key_hex `), BadInput},
	{storyREST, regexp.MustCompile(`^uuid out of range$`), BadInput},
	{storyREST, regexp.MustCompile(`^global public key is not set yet$`), NotFound}, // a key generation is in progress
}

// maxText is the number of bytes of an error's text that decide. A node may send megabytes, which would take seconds.
const maxText = 64 << 10

// classify returns the reason of an interface's error. asked is the height of the request, or 0. known reports whether a
// row matches. Nodes may refuse a future height with the text for a pruned one, which then names their newest height.
func classify(by api, text string, asked int64) (reason Reason, known bool) {
	text = text[:min(len(text), maxText)]
	i := rowOf(by, text)
	if i < 0 {
		return Other, false
	}
	if newest := latestIn(text); errorTexts[i].reason == Pruned && 0 < newest && newest < asked {
		return FutureHeight, true
	}
	return errorTexts[i].reason, true
}

// rowOf returns the index of the row that decides, or -1.
func rowOf(by api, text string) int {
	for i, row := range errorTexts {
		if row.by&by != 0 && row.text.MatchString(text) {
			return i
		}
	}
	return -1
}

var latest = regexp.MustCompile(`\(latest height: (\d{1,18})\)`)

func latestIn(text string) int64 {
	match := latest.FindStringSubmatch(text)
	if match == nil {
		return 0
	}
	height, _ := strconv.ParseInt(match[1], 10, 64) // 18 digits always parse
	return height
}
