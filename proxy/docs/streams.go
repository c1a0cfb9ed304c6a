package docs

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// streamTag groups streams, and what answers several paths at once.
const streamTag = "streams"

// eventContent describes an answer that comes as a stream.
func eventContent() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: streamTexts.events}}
}

// addLive adds the stream of several answers.
func (d *description) addLive() {
	op := &huma.Operation{
		Method: http.MethodGet, Path: stream.LivePath, OperationID: "live", Tags: []string{streamTag},
		Summary: streamTexts.summary, Description: streamTexts.doc, Security: d.security(d.o.Chain.Auth),
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

// addBatch adds the answer to several paths.
func (d *description) addBatch() {
	explode := true
	paths := &huma.Param{
		Name: stream.PathParameter, In: "query", Required: true, Explode: &explode, Example: []string{d.examplePath(), d.otherPath()},
		Description: "A path of the chain's state with its query. May be given " + strconv.Itoa(blocks.MaxBatchPaths) + " times.",
		Schema:      &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, MinItems: new(1), MaxItems: new(blocks.MaxBatchPaths)},
	}
	answer := &huma.Response{Description: "The answers, in the order of the paths.", Content: map[string]*huma.MediaType{web.JSON: {Schema: batchSchema()}}}
	if e := d.examples["batch"].Answer; e != nil {
		answer.Content[web.JSON].Example = e
	}
	op := &huma.Operation{
		Method: http.MethodGet, Path: blocks.BatchPath, OperationID: "batch", Tags: []string{streamTag},
		Summary: "Several answers at one block", Description: batchText, Security: d.security(d.o.Chain.Auth),
		Parameters: append([]*huma.Param{paths}, referred(chainHeaders(d.o)...)...), Responses: d.responses(answer),
	}
	delete(op.Responses, strconv.Itoa(http.StatusNoContent))
	d.add(op)
}

var batchText = "Up to " + strconv.Itoa(blocks.MaxBatchPaths) + " paths are answered at one block: the newest, or that of `X-Block-Height`. Each is asked for as if it came alone, and counts alone against rates. " +
	"Where one cannot be read in time, all are of the newest block that all have, and the answer is marked as a stale one is. What a path says no to is a member with its `status`; a path that does not exist, or is not about the state, is a 400 for all. " +
	"The answers have " + strconv.Itoa(blocks.MaxBatchBytes>>20) + " MiB together at most. The `ETag` is weak: while no member changes a 304 comes at later blocks, too, and names the newest in `X-Block-Height`. Keys of next pages are read at the block of the newest one."

func batchSchema() *huma.Schema {
	number := &huma.Schema{Type: huma.TypeInteger}
	member := &huma.Schema{Type: huma.TypeObject, Required: []string{"path", "status"}, Properties: map[string]*huma.Schema{
		"path": {Type: huma.TypeString, Description: "As it was asked for."}, "status": number,
		"body": {Description: "The answer as that path gives it, where it is JSON."},
		"text": {Type: huma.TypeString, Description: "The answer where it is none."},
		"link": {Type: huma.TypeString, Description: "Its `Link` header, where it has one."},
	}}
	return &huma.Schema{Type: huma.TypeObject, Required: []string{"height", "answers"}, Properties: map[string]*huma.Schema{
		"height": {Type: huma.TypeInteger, Description: "The block of all answers."}, "answers": {Type: huma.TypeArray, Items: member},
	}}
}

// examplePath is a path that every chain of the dialect has.
func (d *description) examplePath() string {
	if d.o.Cosmos != nil {
		return "/cosmos/staking/v1beta1/pool"
	}
	return "/staking/pool"
}

// otherPath is another path that every chain of the dialect has.
func (d *description) otherPath() string {
	if d.o.Cosmos != nil {
		return "/cosmos/staking/v1beta1/params"
	}
	return "/staking/params"
}

// streamTexts say what streams are.
var streamTexts = struct{ summary, doc, events string }{
	"Stream several answers",
	"One connection for up to " + strconv.Itoa(stream.MaxLivePaths) + " answers: each now, and again whenever a block changes it. " +
		"An event without a name is an answer; its data is `{\"path\", \"height\", \"answer\"}`, and its id `<height>.<etag>`. With several paths each batch of events ends with an `id:` alone, which EventSource sends when it connects again: " +
		"a digest of each path's last answer, in order, so that only what has changed is sent again; with an id that is not known, everything is. `failure` says that an answer could not be read anew, and the stream goes on; `block` is sent to those who ask for it once a block is complete: after the answers of block N comes `{\"height\": N, \"session\": …}` with the `X-Session` of a client that has seen it, and no answer of block N+1 comes before it; `failure` before it names a path that has no answer at that block, and holds the others for a quarter of a block's time, 500 ms at most; a slow client skips whole blocks. So a page that draws at `block` shows one block. " +
		"Over a limit of streams the answer is 200 with the time after which to try again. " +
		"Every other path of the chain streams its one answer to a client that accepts `text/event-stream`; the data is the body then, and it takes the `stream.` parameters, too.",
	"Server-sent events, for clients that accept them: the answer now, and again whenever a block changes it.",
}

// streamParameters are what streams take, in the query for EventSource's sake.
var streamParameters = []struct {
	name, doc string
	schema    huma.Schema
	example   any
}{
	{stream.PathParameter, "A path of the chain with its query. May be given " + strconv.Itoa(stream.MaxLivePaths) + " times.",
		huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, MinItems: new(1), MaxItems: new(stream.MaxLivePaths)}, nil},
	{stream.BlocksParameter, "Ask for an event whenever a block is complete.", booleanValue, nil},
	{stream.HeightParameter, "Stands for the header `X-Block-Height`.", heightValue, nil},
	{stream.MinHeightParameter, "Stands for the header `X-Min-Block-Height`.", heightValue, nil},
	{stream.MinEVMParameter, "Stands for the header `X-Min-Evm-Block`.", heightValue, nil},
	{stream.SessionParameter, "Stands for the header `X-Session`. Answers and blocks before it are not told, unless it does not come in a moment: a quarter of a block's time, 500 ms at most. Where the chain was set back behind it, the answer has `X-Session-Reset`.", tokenValue, nil},
	{stream.LastEventParameter, "Stands for the header `Last-Event-ID`, for an EventSource that was made anew.", textValue, nil},
	{stream.KeyParameter, "Stands for the header `X-Api-Key`. It is kept out of the logs.", textValue, nil},
}
