package docs

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/stream"
)

// eventContent describes a streamed response.
func eventContent() *huma.MediaType {
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "Server-sent events, for clients that accept them: the response now, and again whenever a block changes it."}}
}

// addLive adds the stream of several paths.
func (d *description) addLive() {
	op := d.operation("live", stream.LivePath, d.o.Auth)
	op.Parameters[0].Example = []string{d.examplePath()}
	if d.o.Cosmos != nil {
		op.Parameters = slices.DeleteFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == stream.MinEVMParameter })
	}
	op.Responses = map[string]*huma.Response{
		"200": {Description: "A stream of events.", Content: map[string]*huma.MediaType{stream.EventType: eventContent()}},
	}
	for _, r := range d.Refusals() { // the others become a stream that ends at once
		if r.Status >= http.StatusBadRequest && r.Status < http.StatusInternalServerError && r.Status != http.StatusTooManyRequests {
			op.Responses[strconv.Itoa(r.Status)] = &huma.Response{Ref: responseRefs + r.component()}
		}
	}
	d.add(op)
}

// addBatch adds the batch of several paths.
func (d *description) addBatch() {
	op := d.operation("batch", blocks.BatchPath, d.o.Auth)
	op.Parameters[0].Example = []string{d.examplePath(), d.otherPath()}
	op.Parameters = append(append(op.Parameters, d.referred(urlHeights(d.o)...)...), d.referred(chainHeaders(d.o)...)...)
	answer := op.Responses["200"]
	answer.Headers = d.answer().Headers
	if e := d.examples["batch"].Answer; e != nil {
		answer.Content[respond.JSON].Example = e
	}
	op.Responses = d.responses(answer)
	delete(op.Responses, strconv.Itoa(http.StatusNoContent))
	d.add(op)
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
