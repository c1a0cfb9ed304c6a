package docs

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

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

// otherPath is another path that every chain of the dialect has.
func (d *description) otherPath() string {
	if d.o.Cosmos != nil {
		return "/cosmos/staking/v1beta1/params"
	}
	return "/staking/params"
}
