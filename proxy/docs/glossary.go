package docs

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// A parameterText says what a parameter means and which values it takes.
type parameterText struct {
	doc    string
	schema huma.Schema
}

// Values of parameters, as one should write them: more than this is understood.
var (
	textValue    = huma.Schema{Type: huma.TypeString}
	numberValue  = huma.Schema{Type: huma.TypeString, Format: "uint64", Pattern: "^[0-9]{1,19}$"}
	booleanValue = huma.Schema{Type: huma.TypeBoolean}
	versionValue = huma.Schema{Type: huma.TypeString, Pattern: `^(0|[0-9]{1,19}\.[A-Za-z0-9_-]{12}(\.[0-9]{1,19})?)$`}
	heightValue  = huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(1.0)}
	tokenValue   = huma.Schema{Type: huma.TypeString, Pattern: `^[0-9]{1,19}(\.[0-9A-Fa-f]{8,64})?$`}
)

// parameterTexts are those of pages and of headers.
var parameterTexts = map[string]parameterText{
	dialect.PageKey:        {"The `next_key` of the page before. It carries the block at which that page was read, and this one is read there, too, unless the request names another. Not together with `pagination.offset`.", textValue},
	dialect.PageOffset:     {"Items to skip. Following `pagination.key` costs less.", numberValue},
	dialect.PageLimit:      {"Items on the page. Without it, or with 0, it is 100.", numberValue},
	dialect.PageCountTotal: {"Whether to count all items, into `pagination.total`. Not done with a `pagination.key`; always done without a limit.", booleanValue},
	dialect.PageReverse:    {"Whether the last items come first.", booleanValue},

	web.HeightHeader:    {"Read at this block in place of the newest. What has been read once never changes.", heightValue},
	web.MinHeightHeader: {"Wait until this block has come, then read the newest. The `X-Session` of an answer stands for its block; where the chain was set back behind that, the status is 409, for what the client waits for may be gone.", tokenValue},
	web.SessionHeader: {"The greatest `X-Session` of the answers so far, whatever connections they came on. The answer is of that block or a later one. Where that one does not come in a moment, the answer is an older one and `Cache-Status` says so. " +
		"Where the chain was set back behind it the answer begins a new session, and says so by `X-Session-Reset`.", tokenValue},
	blocks.HeightParameter:    {"Means what the header `X-Block-Height` means, to caches that key by the URL alone, too.", heightValue},
	blocks.MinHeightParameter: {"Means what the header `X-Min-Block-Height` means, to caches that key by the URL alone, too.", tokenValue},
	web.MinEVMHeader:          {"Wait until this block of the execution chain counts, so that a client sees its own stake or registration: in the chain's state, which takes in what a block did with the block after it, or in the store of collections. Refused where no node tells of such blocks, or no indexer fills the store.", heightValue},
	stream.SinceParameter:     {"A poll: the answer comes once there is another one than the client has, and some seconds without one are a 204. `0` is for a client that has none. Each answer names the URL to go on with in `Link`; caches before this server share it, and so one poll is asked for all who follow.", versionValue},
	ifNoneMatch:               {"The `ETag` of what the client has. If that is still the answer, the status is 304 and there is no body.", textValue},
}

// headerTexts are the headers of responses, each with an example.
var headerTexts = map[string]struct{ doc, example string }{
	web.HeightHeader:    {"The block the answer holds at. Absent while the newest block is not known, and where the chain was not asked.", "228"},
	web.SessionHeader:   {"How far the client has seen the chain, with this answer: a text to send back, of which the greatest number counts. Absent where the request names the block to be read at.", "228.4D0FAE0B5C8A"},
	web.ResetHeader:     {"`true` where the chain was set back behind the session of the request. The session of this answer takes its place.", "true"},
	web.EVMBlockHeader:  {"Everything up to this block of the execution chain is counted on the page. Absent where that is not known: no indexer fills the store, for one.", "18400000"},
	etagHeader:          {"Changes with the content, not with the block.", `"bj2GbHE0Ff_1oc0SKSHQGw"`},
	cacheControlHeader:  {"How long the answer may be used without asking again, by a cache that others ask for `s-maxage` seconds: until the block ends. A 200 at the block that the URL names is `immutable`, one at the block of a header is `private`.", "public, max-age=3, s-maxage=2"},
	ageHeader:           {"Seconds since the answer was last known to be true; absent when it was read for this request.", "0"},
	cacheStatusHeader:   {"Where the answer came from, and for how many more seconds it is fresh (RFC 9211). The `detail` says when it is stale, when freshness is in seconds because the newest block is not known, and when the nodes are catching up with their chain.", "tipcache; hit; ttl=61; detail=\"memory\""},
	linkHeader:          {"With `rel=\"next\"`, the next page; of a poll (`since`) the URL to go on with, in its place. With `rel=\"describedBy\"`, the schema of the body.", `</api/v4/CollectionPage.json>; rel="describedBy"`},
	web.RequestIDHeader: {"Names the request in the server's log. A request may bring its own.", "JQ2FOLJNQDNB7AMGT4RBDWYRF3"},
	retryAfterHeader:    {"Seconds after which it makes sense to try again.", "1"},
	web.UnknownHeader:   {"Parameters of the query that were ignored, and look like a slip of the pen.", "limit (did you mean pagination.limit?)"},
	rateLimitHeader:     {"Where there is a limit: `r` requests may follow at once, and in `t` seconds as many as ever.", `"address";r=99;t=1`},
	ratePolicyHeader:    {"Where there is a limit: `q` requests may come at once, and again after `w` seconds.", `"address";q=100;w=1`},
	authenticateHeader:  {"How to authenticate.", `ApiKey header="X-Api-Key"`},
}
