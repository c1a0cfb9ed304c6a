package docs

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/story"
)

// about returns the description of the document.
func about(o Options) string {
	text := "Read-only queries of a staking chain, answered from a cache that measures freshness in blocks.\n\n"
	switch {
	case o.Cosmos != nil:
		text = aboutCosmos
	case o.Chain.Shape == story.Node:
		text += "This server returns the node's own bytes, statuses and error texts. " +
			"The node answers 500 to everything it refuses. Fields that the node omits, such as an empty list or a zero, are missing here, too.\n\n"
	default:
		text += "Every body is `{\"code\", \"msg\", \"error\"}`, and `code` is the HTTP status. A list is never null unless its schema says so. " +
			"Amounts and decimals are strings, exactly as the chain has them. Clients should ignore members that are not documented. " +
			"Addresses are `0x` and 40 hex digits, or bech32.\n\n"
	}
	if o.Cosmos == nil && !o.Chain.RefuseUnknown {
		text += "Paths that are not listed are passed to the node within limits. Their responses name no block, and cannot be streamed.\n\n"
	}
	text += "Every response names its block in `X-Block-Height`. `X-Block-Height: N` in a request reads at block N. " +
		"`X-Min-Block-Height: N` waits until block N has arrived, so that a client sees its own write. " +
		"`?x-block-height=N`, `?x-min-block-height=N` and `?x-min-evm-block=N` mean what the headers mean on every path. Clients behind a CDN need them, because many CDNs use only the URL as key. " +
		"Empty values of these headers and parameters are ignored. " +
		"On a connection, no response comes from an earlier block than the previous response, unless it is marked `stale-while-revalidate`. " +
		"A client that sends back the greatest `X-Session` it has received gets the same guarantee across connections, replicas and proxies.\n\n" +
		"Pages that are connected by `next_key` form one snapshot: later pages are read at the block of the first. " +
		"If the node no longer has that block, the next page is read at the newest one, and `X-Block-Height` says so. Pages by offset may skip or repeat items. " +
		"With `Accept: text/event-stream`, the response is sent again whenever a block changes it. " +
		"Behind proxies that do not pass streams, poll: `?since=0` returns the response and a `Link` with the next URL, which is answered once the response changes. A CDN shares it among all clients.\n\n" +
		"`ETag` and `If-None-Match` save the body if nothing has changed. `HEAD` works wherever `GET` does."
	if o.Collections != nil {
		text += "\n\nThis server also lists collections. Errors of that API are `application/problem+json`."
	}
	return text
}

// tagTexts are the groups of operations, in order.
var tagTexts = []huma.Tag{
	{Name: "staking", Description: "Validators and their delegations."},
	{Name: "distribution", Description: "Rewards and commission that have not been withdrawn."},
	{Name: "auth", Description: "Limits and costs of transactions."},
	{Name: "bank", Description: "Balances and supply."},
	{Name: "mint", Description: "Inflation."},
	{Name: "slashing", Description: "Missed blocks and penalties."},
	{Name: "evmstaking", Description: "Staking from the execution layer: withdrawals and their addresses."},
	{Name: "evmengine", Description: "Upgrades requested by the execution layer."},
	{Name: "dkg", Description: "Distributed key generation and partial decryptions."},
	{Name: "upgrade", Description: "Upgrades of the chain."},
	{Name: streamTag, Description: "Event streams and batches."},
	{Name: listingTag, Description: "Collections, with counters and metadata."},
}

// refusalTexts are the statuses of the chain API without a response body of the state.
var refusalTexts = []refusalText{
	{http.StatusNoContent, "Response to a poll (`since`): nothing has changed. `Link` names the URL to continue with.", "", []string{linkHeader}},
	{http.StatusNotModified, "The client's copy is still current.", "", []string{etagHeader, linkHeader}},
	{http.StatusBadRequest, "A parameter or header is malformed, or the block is in the future.", `validator_addr is "5c8a"; expected 0x and 40 hex digits, or a storyvaloper1... address`, nil},
	{http.StatusUnauthorized, "The key is missing or not valid.", "the X-Api-Key header is required", []string{authenticateHeader}},
	{http.StatusForbidden, "An access rule of this server denies the path.", "access to /staking/validators is denied here", nil},
	{http.StatusNotFound, "Nothing was found, or the node no longer has the block.", notFoundError, nil},
	{http.StatusConflict, "The block that the client waits for was rolled back.", "block 228 was rolled back: the chain has another block at this height", nil},
	{http.StatusTooManyRequests, "The client has exceeded its rate, or too many of its requests wait for a block.", "too many requests: the limit of this address is 100 in 1s", []string{retryAfterHeader}},
	{http.StatusInternalServerError, "The node refused the request.", notFoundError, nil},
	{http.StatusBadGateway, "The node cannot be reached or its response is invalid, and there is no older response.", "the chain node cannot be reached", []string{retryAfterHeader}},
	{http.StatusServiceUnavailable, "The node or this server is overloaded, or the newest block is unknown.", "the chain node is busy", []string{retryAfterHeader}},
	{http.StatusGatewayTimeout, "The node did not answer in time, or the requested block has not arrived.", "block 1000 has not arrived; the newest is 228", []string{retryAfterHeader}},
}

const notFoundError = "nothing found at /staking/validators/0x0000000000000000000000000000000000000000: rpc error: code = NotFound desc = validator storyvaloper1qqqqqqqqqqqqqqqqqqqqqqqqqqqqm6k3j7v5fc not found"

// problemTexts are the errors of the collection listing.
var problemTexts = []refusalText{
	{http.StatusBadRequest, "The body is empty, or the body or a header is malformed.", "request body is required", nil},
	{http.StatusUnauthorized, "The key is missing or not valid.", "the X-Api-Key header is required", []string{authenticateHeader}},
	{http.StatusForbidden, "An access rule of this server denies the path.", "access to /api/v4/collections is denied here", nil},
	{http.StatusRequestTimeout, "The body did not arrive in time.", "request body read timeout", nil},
	{http.StatusRequestEntityTooLarge, "The body is larger than 1 MiB.", "request body is too large limit=1048576 bytes", nil},
	{http.StatusUnsupportedMediaType, "The body is not JSON, or is compressed.", "the request body must be application/json", []string{acceptHeader, acceptCodingHeader}},
	{http.StatusUnprocessableEntity, "The body violates its schema. Every violation is listed.", "validation failed", nil},
	{http.StatusTooManyRequests, "The client has exceeded its rate, or too many of its requests wait for a block.", "too many requests: the limit of this key is 100 in 1s", []string{retryAfterHeader}},
	{http.StatusBadGateway, "The store cannot be reached or its response is invalid, and there is no older page.", "the collection store cannot be reached", []string{retryAfterHeader}},
	{http.StatusServiceUnavailable, "The store is being filled for the first time, or it or this server is overloaded.", "the collection store is busy", []string{retryAfterHeader}},
	{http.StatusGatewayTimeout, "The store did not answer in time, or has not counted the requested block.", "the collection store did not answer in time", []string{retryAfterHeader}},
}
