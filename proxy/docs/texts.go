package docs

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/chain"
)

// about introduces the document.
func about(o Options) string {
	text := "Read-only queries of a staking chain, answered from a cache that measures freshness in blocks.\n\n"
	switch {
	case o.Cosmos != nil:
		text = aboutCosmos
	case o.Chain.Shape == chain.Node:
		text += "This server passes the node's own answers on: its bytes, its statuses and its error texts. " +
			"The node answers 500 to everything it refuses. What the node leaves out, such as an empty list or a zero, is missing here, too.\n\n"
	default:
		text += "Every body is `{\"code\", \"msg\", \"error\"}`, and `code` is the HTTP status. A list is never null but where its schema says so, as for the `total` of a delegator's rewards. " +
			"Amounts and decimals are texts, exactly as the chain has them. Members beyond the documented ones may come and should be ignored. " +
			"Addresses are `0x` and 40 hex digits, or bech32.\n\n"
	}
	text += "Every answer says at which block it holds, in `X-Block-Height`. `X-Block-Height: N` in a request reads at block N; " +
		"`X-Min-Block-Height: N` waits until block N has come, so that a client sees its own write. " +
		"`?x-block-height=N` and `?x-min-block-height=N` on every path mean the same, for clients behind a CDN: many key by the URL alone, and answer a request with the header from what they have stored without it. " +
		"An empty value of these headers and parameters is as none. " +
		"On a connection no answer is of an earlier block than one before it, or it is marked `stale-while-revalidate`. " +
		"A client that sends back the greatest `X-Session` that it was given has that across connections, replicas and proxies.\n\n" +
		"A walk from page to page by `next_key` is one snapshot: later pages are read at the block of the first. " +
		"Where the node no longer has that block the walk goes on at the newest one, and `X-Block-Height` says so. Pages by offset may skip or repeat items. " +
		"With `Accept: text/event-stream` an answer comes by itself whenever a block changes it. " +
		"Where streams do not pass, `?since=0` gives the answer and, in `Link`, the URL of the next one, which is answered once there is one; a CDN answers it for all who ask.\n\n" +
		"`ETag` and `If-None-Match` save the body of what did not change. `HEAD` works wherever `GET` does."
	if o.Collections != nil {
		text += "\n\nBeside the chain stands the listing of collections, whose errors are `application/problem+json`."
	}
	return text
}

// tagTexts are the groups of operations, in their order.
var tagTexts = []huma.Tag{
	{Name: "staking", Description: "Validators, and who has delegated to them."},
	{Name: "distribution", Description: "Rewards and commission that wait to be withdrawn."},
	{Name: "auth", Description: "Limits and costs of transactions."},
	{Name: "bank", Description: "Balances and supply."},
	{Name: "mint", Description: "Inflation."},
	{Name: "slashing", Description: "Missed blocks, and what they cost."},
	{Name: "evmstaking", Description: "Staking from the execution layer: withdrawals and the addresses they go to."},
	{Name: "evmengine", Description: "Upgrades that the execution layer has asked for."},
	{Name: "upgrade", Description: "Upgrades of the chain."},
	{Name: streamTag, Description: "Answers that come by themselves."},
	{Name: listingTag, Description: "Collections, with counters and metadata."},
}

// An operationText says what an operation is for.
type operationText struct{ summary, doc string }

var listingText = operationText{
	"List collections",
	"One page of the collections: ordered, filtered, and described by the metadata provider. One address in the filter looks one collection up. " +
		"An unknown address is no error, and neither is a provider that knows nothing or fails: `collectionMetadata` is empty then. " +
		"`QUERY` in place of `POST` (RFC 10008) means the same, and tells whatever is between that the request changes nothing and may be made again. curl, `fetch` in Chromium, nginx and HAProxy send it as it is, and Varnish by a pipe; none of them caches it.",
}

// refusalTexts are the statuses of the chain's interface that bring no answer.
var refusalTexts = []refusalText{
	{http.StatusNoContent, "To a poll (`since`): what the client has is still the answer, and `Link` names the URL to go on with.", "", []string{linkHeader}},
	{http.StatusNotModified, "What the client has is still the answer.", "", []string{etagHeader, linkHeader}},
	{http.StatusBadRequest, "A parameter or header is malformed, or the block is in the future.", `validator_addr is "5c8a"; expected 0x and 40 hex digits, or a storyvaloper1... address`, nil},
	{http.StatusUnauthorized, "The key is missing or not valid.", "the X-Api-Key header is required", []string{authenticateHeader}},
	{http.StatusNotFound, "There is no such thing, or the node no longer has the block.", notFoundError, nil},
	{http.StatusConflict, "The chain was set back behind the block that the client wants to have seen.", "the chain was set back and has another block 228 than the one to be seen", nil},
	{http.StatusTooManyRequests, "The client has asked more often than it may, or has its share of the places to wait for a block.", "too many requests: the limit of this address is 100 in 1s", []string{retryAfterHeader}},
	{http.StatusInternalServerError, "The node refused.", notFoundError, nil},
	{http.StatusBadGateway, "The node cannot be reached or understood, and there is no older answer to give.", "the chain node cannot be reached", []string{retryAfterHeader}},
	{http.StatusServiceUnavailable, "The node or this server is overloaded, or the newest block is not known.", "the chain node is busy", []string{retryAfterHeader}},
	{http.StatusGatewayTimeout, "The node did not answer in time, or the block that was waited for has not come.", "block 1000 has not come; the newest is 228", []string{retryAfterHeader}},
}

const notFoundError = "nothing found at /staking/validators/0x0000000000000000000000000000000000000000: rpc error: code = NotFound desc = validator storyvaloper1qqqqqqqqqqqqqqqqqqqqqqqqqqqqm6k3j7v5fc not found"

// problemTexts are those of the collection listing.
var problemTexts = []refusalText{
	{http.StatusBadRequest, "The body is empty or malformed, or a header is.", "request body is required", nil},
	{http.StatusUnauthorized, "The key is missing or not valid.", "the X-Api-Key header is required", []string{authenticateHeader}},
	{http.StatusRequestTimeout, "The body did not come in time.", "request body read timeout", nil},
	{http.StatusRequestEntityTooLarge, "The body is larger than 1 MiB.", "request body is too large limit=1048576 bytes", nil},
	{http.StatusUnsupportedMediaType, "The body is not JSON, or is compressed.", "the request body must be application/json", nil},
	{http.StatusUnprocessableEntity, "The body is not as its schema says. Every violation is listed.", "validation failed", nil},
	{http.StatusTooManyRequests, "The client has asked more often than it may, or has its share of the places to wait for a block.", "too many requests: the limit of this key is 100 in 1s", []string{retryAfterHeader}},
	{http.StatusBadGateway, "The store cannot be reached or understood, and there is no older page to give.", "the collection store cannot be reached", []string{retryAfterHeader}},
	{http.StatusServiceUnavailable, "The store is being filled for the first time, or it or this server is overloaded.", "the collection store is busy", []string{retryAfterHeader}},
	{http.StatusGatewayTimeout, "The store did not answer in time, or has not counted the block to be waited for.", "the collection store did not answer in time", []string{retryAfterHeader}},
}
