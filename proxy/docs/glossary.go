package docs

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

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
