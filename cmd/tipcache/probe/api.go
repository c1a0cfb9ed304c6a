package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/node"
)

// An api is the API of a server.
type api string

const (
	storyREST  = api(node.Story)
	cosmosREST = api(node.Cosmos)
	cometRPC   = api("rpc")
)

// String names the API for people.
func (a api) String() string {
	return map[api]string{storyREST: "REST of Story", cosmosREST: "REST of the Cosmos SDK", cometRPC: "CometBFT RPC"}[a]
}

// A query is one read of an API.
type query struct {
	path   string // REST: path and query. RPC: path of abci_query
	method string // of the RPC; "" for REST
}

const stateMethod = "abci_query"

// queries are cheap and large reads of each API. Servers need not have all of them. The first one that can be read at a height
// also shows whether a block can be read. Methods that name a block before its state can be read, such as status, are left out.
var queries = map[api][]query{
	storyREST: {
		{path: "/staking/pool"}, {path: "/staking/validators?pagination.limit=1"}, {path: "/auth/params"}, {path: "/staking/validators?pagination.limit=100"},
	},
	cosmosREST: {
		{path: "/cosmos/staking/v1beta1/pool"}, {path: "/cosmos/bank/v1beta1/params"}, {path: "/cosmos/staking/v1beta1/validators?pagination.limit=100"},
		{path: "/cosmos/bank/v1beta1/supply?pagination.limit=100"},
	},
	cometRPC: {
		{method: "abci_info"}, {method: stateMethod, path: "/cosmos.staking.v1beta1.Query/Pool"}, {method: stateMethod, path: "/cosmos.bank.v1beta1.Query/Params"},
		{method: stateMethod, path: "/cosmos.staking.v1beta1.Query/Validators"}, {method: "block"},
	},
}

// String names the query in reports.
func (q query) String() string { return strings.TrimSpace(q.method + " " + q.path) }

// hasHeight reports whether q can be read at a height.
func (q query) hasHeight() bool { return q.method == "" || q.method == stateMethod }

// names reports whether responses can name the block whose state they show.
func (q query) names() bool { return q.method != "block" }

// isComparable reports whether two responses at one height must be equal.
func (q query) isComparable() bool {
	path, _, _ := strings.Cut(q.path, "?")
	return q.hasHeight() && !cosmos.Varies(path) && !cosmos.Varies(string(cosmosREST)+path)
}

// An answer is the result of a read.
type answer struct {
	height  int64  // block that the response names; 0 for none
	value   []byte // JSON; nil after a failure
	problem string // "" after a success
	absent  bool   // the server does not have the query
	foreign bool   // the response is not in the form of the API
	err     error  // of the transport; nil after a response
}

// ownURL is a query parameter without a meaning. It gives each read at a height a URL of its own. A cache that ignores the header
// for the height would otherwise serve the old response to other clients.
const ownURL = "probed-block"

// request returns the request for a query at a height, or at the server's newest block if height is 0.
func (a api) request(ctx context.Context, base *url.URL, q query, height int64) (*http.Request, error) {
	at := strconv.FormatInt(height, 10)
	if a != cometRPC {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String()+q.path, nil)
		if err == nil && height > 0 {
			r.Header.Set(node.Dialect(a).HeightHeader(), at)
			r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+ownURL+"="+at, "&")
		}
		return r, err
	}
	params := map[string]any{}
	if q.method == stateMethod {
		params = map[string]any{"path": q.path, "data": "", "height": at, "prove": false}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base.String()+"/", bytes.NewReader(comet.Request(q.method, params)))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// parse returns the answer in a response to a query at a height.
func (a api) parse(q query, r *http.Response, body []byte, height int64) answer {
	if a == cometRPC {
		return parseRPC(q, r, body)
	}
	found, ok := node.Dialect(a).ReadResponse(r, body, height)
	switch {
	case !ok:
		return foreign(r)
	case found.Height < 0:
		return answer{problem: "names an invalid block"}
	case found.Reason != node.OK:
		return answer{problem: status(r), absent: found.Reason == node.NotFound || found.Reason == node.BadInput}
	}
	return answer{height: found.Height, value: body}
}

func parseRPC(q query, r *http.Response, body []byte) answer {
	result, err := comet.Result(body)
	if refusal, ok := errors.AsType[*comet.Refusal](err); ok {
		return answer{problem: fmt.Sprintf("error %d", refusal.Code), absent: refusal.Code == comet.NoMethod}
	} else if err != nil {
		return foreign(r)
	}
	response := gjson.GetBytes(result, "response")
	if code := response.Get("code").Int(); code != 0 {
		return answer{problem: fmt.Sprintf("code %d of %s", code, q.method), absent: code == unknownQuery}
	}
	height, _ := strconv.ParseInt(cmp.Or(response.Get("height").Str, response.Get("last_block_height").Str), 10, 64)
	return answer{height: height, value: result}
}

// unknownQuery is the code of abci_query for a path that the application does not have.
const unknownQuery = 6

const notFromNode = "not the response of a node"

// foreign returns the answer for a response that is not in the form of the API, such as the error page of another server.
func foreign(r *http.Response) answer {
	if r.StatusCode == http.StatusOK {
		return answer{problem: notFromNode, foreign: true}
	}
	return answer{problem: status(r), foreign: true}
}

func status(r *http.Response) string { return fmt.Sprintf("status %d", r.StatusCode) }

// maxBody is the maximum size of a response in bytes. Longer ones are truncated, and so fail.
const maxBody = 32 << 20

// read sends a query once. height is 0 for the server's newest block.
func (s *server) read(ctx context.Context, client *http.Client, q query, height int64) answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := s.api.request(ctx, s.base, q, height)
	if err != nil {
		return failed(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return failed(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return failed(err)
	}
	return s.api.parse(q, response, body, height)
}

// failed returns the answer for an error of the transport.
func failed(err error) answer {
	return answer{problem: upstream.Silence("", err).Kind.String(), err: upstream.Bare(err)}
}
