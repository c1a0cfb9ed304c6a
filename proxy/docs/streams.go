package docs

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/stream"
)

// streamTag groups streams and batches.
const streamTag = "streams"

// eventContent describes a streamed response.
func eventContent() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "Server-sent events, for clients that accept them: the response at once, and again whenever a block changes it."}}
}

// addLive adds the stream of several paths.
func (d *description) addLive() {
	op := &huma.Operation{
		Method: http.MethodGet, Path: stream.LivePath, OperationID: "live", Tags: []string{streamTag},
		Summary: "Stream several paths",
		Description: "One connection for up to " + strconv.Itoa(stream.MaxLivePaths) + " responses: each at once, and again whenever a block changes it. " +
			"An event without a name is a response. Its data is `{\"path\", \"height\", \"answer\"}`, and its id `<height>.<etag>`. With several paths, each group of events ends with an `id:` line, which EventSource sends when it reconnects: " +
			"a digest of each path's last response, so that only changes are sent again. With an unknown id, everything is sent. `failure` says that a response could not be refreshed; the stream continues. With `stream.blocks=true` a client receives, for each block, the changed responses or failures and then one `block` event with `{\"height\": N, \"session\": …}`, and with `\"evm_block\"`, the newest block of the execution chain that the state includes, if known. No response of block N+1 comes before it. A failing path delays the others by a quarter of a block's time, 500 ms at most. A slow client skips whole blocks, so a page that redraws at each `block` event always shows one block. " +
			"Beyond the limit of streams, the response is 200 with the time after which to reconnect. " +
			"Every other path of the chain streams its response to a client that accepts `text/event-stream`. The data is then the body, and the path also takes the `stream.` parameters.",
		Security: d.security(d.o.Chain.Auth),
		Responses: map[string]*huma.Response{
			"200": {Description: "A stream of events.", Content: map[string]*huma.MediaType{stream.EventType: eventContent()}},
		},
	}
	explode := true
	for _, p := range streamParameters {
		if p.name == stream.PathParameter {
			p.example = []string{d.examplePath()}
		}
		if p.name == stream.MinEVMParameter && d.o.Cosmos != nil {
			continue
		}
		schema := p.schema
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: p.name, In: "query", Required: p.name == stream.PathParameter, Explode: &explode, Description: p.doc, Schema: &schema, Example: p.example,
		})
	}
	for _, r := range d.Refusals() {
		if r.Status >= http.StatusBadRequest && r.Status < http.StatusInternalServerError && r.Status != http.StatusTooManyRequests {
			op.Responses[strconv.Itoa(r.Status)] = &huma.Response{Ref: responseRefs + r.component()}
		}
	}
	d.add(op)
}

// addBatch adds the batch of several paths.
func (d *description) addBatch() {
	explode := true
	paths := &huma.Param{
		Name: stream.PathParameter, In: "query", Required: true, Explode: &explode, Example: []string{d.examplePath(), d.otherPath()},
		Description: "A path of the chain's state with its query. May be given " + strconv.Itoa(blocks.MaxBatchPaths) + " times.",
		Schema:      &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, MinItems: new(1), MaxItems: new(blocks.MaxBatchPaths)},
	}
	answer := &huma.Response{Description: "The responses, in the order of the paths.", Content: map[string]*huma.MediaType{respond.JSON: {Schema: batchSchema()}}}
	if e := d.examples["batch"].Answer; e != nil {
		answer.Content[respond.JSON].Example = e
	}
	op := &huma.Operation{
		Method: http.MethodGet, Path: blocks.BatchPath, OperationID: "batch", Tags: []string{streamTag},
		Summary: "Read several paths at one block", Description: batchText, Security: d.security(d.o.Chain.Auth),
		Parameters: append([]*huma.Param{paths}, referred(chainHeaders(d.o)...)...), Responses: d.responses(answer),
	}
	delete(op.Responses, strconv.Itoa(http.StatusNoContent))
	d.add(op)
}

var batchText = "Up to " + strconv.Itoa(blocks.MaxBatchPaths) + " paths are read at one block: the newest, or the one named by `X-Block-Height`. Each counts against rates like a request of its own. " +
	"If one cannot be read in time, all responses are from the newest block at which each is cached, and the response is marked as stale. A refused path becomes a member with its `status`. A path that does not exist or does not read the state is a 400 for the whole batch. " +
	"All responses together have at most " + strconv.Itoa(blocks.MaxBatchBytes>>20) + " MiB. The `ETag` is weak: if no member changes, later blocks get a 304 that names the newest block in `X-Block-Height`. Next pages are read at the block of the newest key."

func batchSchema() *huma.Schema {
	number := &huma.Schema{Type: huma.TypeInteger}
	member := &huma.Schema{Type: huma.TypeObject, Required: []string{"path", "status"}, Properties: map[string]*huma.Schema{
		"path": {Type: huma.TypeString, Description: "The path as requested."}, "status": number,
		"body": {Description: "The response of that path, if it is JSON."},
		"text": {Type: huma.TypeString, Description: "The response if it is not JSON."},
		"link": {Type: huma.TypeString, Description: "Its `Link` header, if any."},
	}}
	return &huma.Schema{Type: huma.TypeObject, Required: []string{"height", "answers"}, Properties: map[string]*huma.Schema{
		"height": {Type: huma.TypeInteger, Description: "The block of all responses."}, "answers": {Type: huma.TypeArray, Items: member},
	}}
}

// examplePath and otherPath return paths that every chain of the dialect has.
func (d *description) examplePath() string { return d.stakingPath() + "/pool" }
func (d *description) otherPath() string   { return d.stakingPath() + "/params" }

func (d *description) stakingPath() string {
	if d.o.Cosmos != nil {
		return "/cosmos/staking/v1beta1"
	}
	return "/staking"
}

// streamParameters are the parameters of streams. They are in the query because EventSource cannot set headers.
var streamParameters = []struct {
	name, doc string
	schema    huma.Schema
	example   any
}{
	{stream.PathParameter, "A path of the chain with its query. May be given " + strconv.Itoa(stream.MaxLivePaths) + " times.",
		huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, MinItems: new(1), MaxItems: new(stream.MaxLivePaths)}, nil},
	{stream.BlocksParameter, "Send an event whenever a block is complete.", booleanValue, nil},
	{stream.HeightParameter, "Same as the header `X-Block-Height`.", heightValue, nil},
	{stream.MinHeightParameter, "Same as the header `X-Min-Block-Height`.", heightValue, nil},
	{stream.MinEVMParameter, "Same as the header `X-Min-Evm-Block` and the parameter `x-min-evm-block`. If they differ, the request is refused.", heightValue, nil},
	{stream.SessionParameter, "Same as the header `X-Session`. Earlier responses and blocks are not sent, unless that block does not arrive within a quarter of a block's time, 500 ms at most. If that block was rolled back, the response has `X-Session-Reset`.", tokenValue, nil},
	{stream.LastEventParameter, "Same as the header `Last-Event-ID`, for a new EventSource. `lastEventId`, which polyfills send, means the same.", textValue, nil},
	{stream.KeyParameter, "Same as the header `X-Api-Key`. It does not appear in logs.", textValue, nil},
}
