package docs

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
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
	{http.StatusGatewayTimeout, "The node did not answer in time, or the requested block has not arrived.", "block 1000 has not come; the newest is 228", []string{retryAfterHeader}},
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

// A parameterText says what a parameter means and which values it takes.
type parameterText struct {
	doc    string
	schema huma.Schema
}

// Schemas of parameters in canonical form. The server accepts more forms.
var (
	textValue    = huma.Schema{Type: huma.TypeString}
	numberValue  = huma.Schema{Type: huma.TypeString, Format: "uint64", Pattern: "^([0-9]{1,19}|1[0-7][0-9]{18}|18446744073709551615)$"}
	booleanValue = huma.Schema{Type: huma.TypeBoolean}
	versionValue = huma.Schema{Type: huma.TypeString, Pattern: `^(0|[0-9]{1,19}\.[A-Za-z0-9_-]{12}(\.[0-9]{1,19})?)$`}
	heightValue  = huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(1.0)}
	tokenValue   = huma.Schema{Type: huma.TypeString, Pattern: `^[0-9]{1,19}(\.[0-9A-Fa-f]{8,64})?$`}
)

// parameterTexts describes the parameters of pages, and request headers.
var parameterTexts = map[string]parameterText{
	dialect.PageKey:        {"The `next_key` of the previous page. This page is read at the same block, unless the request names another. Cannot be combined with `pagination.offset`.", textValue},
	dialect.PageOffset:     {"Number of items to skip. `pagination.key` costs less.", numberValue},
	dialect.PageLimit:      {"Maximum number of items on the page. The default, also for 0, is 100.", numberValue},
	dialect.PageCountTotal: {"Whether to count all items in `pagination.total`. Ignored with `pagination.key`. Without a limit, items are always counted.", booleanValue},
	dialect.PageReverse:    {"Whether to return the items in descending order.", booleanValue},

	respond.HeightHeader:    {"Read at this block instead of the newest. The response never changes.", heightValue},
	respond.MinHeightHeader: {"Wait until this block has arrived, then read the newest. Also takes the `X-Session` of an earlier response. If that block was rolled back, the status is 409, because the write that the client waits for may be gone.", tokenValue},
	session.Header: {"The greatest `X-Session` of all responses so far. The response is from that block or a later one. If that block does not arrive within a moment, the response is older and `Cache-Status` says so. " +
		"If the session's block is no longer part of the chain, the response starts a new session and carries `X-Session-Reset: true`.", tokenValue},
	blocks.HeightParameter:    {"Same as the header `X-Block-Height`, for caches that use only the URL as key.", heightValue},
	blocks.MinHeightParameter: {"Same as the header `X-Min-Block-Height`, for caches that use only the URL as key.", tokenValue},
	web.MinEVMParameter:       {"Same as the header `X-Min-Evm-Block`, for caches that use only the URL as key.", heightValue},
	respond.MinEVMHeader:      {"Wait until this block of the execution chain is included, so that a client sees its own stake or registration. The chain's state includes an execution block one block later, and the collection store once it is indexed. Refused if no node reports execution blocks, or no indexer fills the store.", heightValue},
	stream.SinceParameter:     {"Long poll: the response is sent once it differs from the one the client has, or as 204 after some seconds. `0` means that the client has none. `Link` names the URL to continue with. Caches share it, so one poll serves all followers.", versionValue},
	ifNoneMatch:               {"The `ETag` of the client's copy. If it is still current, the status is 304 without a body.", textValue},
}

// headerTexts describes the headers of responses, each with an example.
var headerTexts = map[string]struct{ doc, example string }{
	respond.HeightHeader:    {"The block at which the response is correct. Absent while the newest block is unknown, and if the chain was not read.", "228"},
	session.Header:          {"The client's session after this response. Send back the one with the greatest number. Absent if the request names a block to read at.", "228.4D0FAE0B5C8A"},
	session.ResetHeader:     {"`true` if the block of the request's session was rolled back. The session of this response replaces it.", "true"},
	respond.EVMBlockHeader:  {"The page counts everything up to this block of the execution chain. Absent if that is unknown, for example if no indexer fills the store.", "18400000"},
	etagHeader:              {"Validator of the content. A new block alone does not change it.", `"bj2GbHE0Ff_1oc0SKSHQGw"`},
	cacheControlHeader:      {"How long the response may be reused. Shared caches may reuse it for `s-maxage` seconds, until the block ends. A 200 at a block that the URL names is `immutable`; at a block that a header names it is `private`.", "public, max-age=3, s-maxage=2"},
	ageHeader:               {"Seconds since the response was last confirmed. Absent if it was read for this request.", "0"},
	cacheStatusHeader:       {"Source of the response, and for how many more seconds it is fresh (RFC 9211). `detail` says if it is stale, if freshness is in seconds because the newest block is unknown, if the nodes are catching up, and if the response is unconfirmed because a node contradicts the newest block.", "tipcache; hit; ttl=1; detail=\"memory\""},
	linkHeader:              {"With `rel=\"next\"`, the next page, or for a poll (`since`) the URL to continue with. With `rel=\"describedBy\"`, the schema of the body.", `</api/v4/CollectionPage.json>; rel="describedBy"`},
	respond.RequestIDHeader: {"Id of the request in the server's log. A request may send its own.", "JQ2FOLJNQDNB7AMGT4RBDWYRF3"},
	retryAfterHeader:        {"Number of seconds after which to retry.", "1"},
	respond.UnknownHeader:   {"Query parameters that were ignored and are probably typos.", "limit (did you mean pagination.limit?)"},
	rateLimitHeader:         {"If there is a limit: `r` requests remain, and the full quota is available again in `t` seconds.", `"address";r=99;t=1`},
	ratePolicyHeader:        {"If there is a limit: the quota is `q` requests per `w` seconds.", `"address";q=100;w=1`},
	authenticateHeader:      {"How to authenticate.", `ApiKey header="X-Api-Key"`},
	acceptHeader:            {"Media type that the request body must have.", respond.JSON},
	acceptCodingHeader:      {"Content coding that the request body must have.", "identity"},
	acceptQueryHeader:       {"Media type of the body of a `QUERY` request.", respond.JSON},
}
