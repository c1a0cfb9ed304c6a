package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// readableWithin is how long status waits for the block that the node names. Its state can be
// read some milliseconds later.
const readableWithin = 250 * time.Millisecond

// readable is an answer to status that names no block ahead of what can be read: the node's
// own as soon as its block can be, or else one that names the newest that can.
func (o *origin) readable(ctx context.Context, r node.Request, a *node.Answer) (*node.Answer, error) {
	wait, cancel := context.WithTimeout(ctx, readableWithin)
	defer cancel()
	if o.reader.Nodes.WaitHeight(wait, resultOf(a).Get("sync_info.latest_block_height").Int()) == nil {
		return a, nil
	}
	tip := o.reader.Nodes.Tip()
	if !tip.Known { // what can be read is not known
		return a, nil
	}
	r.Call = &node.Call{Method: "blockchain", Params: func(int64) json.RawMessage {
		return fmt.Appendf(nil, `{"minHeight":"%d","maxHeight":"%[1]d"}`, tip.Height)
	}}
	chain, err := o.reader.Nodes.Fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	block := resultOf(chain).Get("block_metas.0")
	if !block.Exists() {
		return nil, &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node does not tell of the newest block", Err: fmt.Errorf("blockchain: %.200s", chain.Body)}
	}
	return naming(a, block), nil
}

// resultOf is the result of an answer, empty where it is an error.
func resultOf(a *node.Answer) gjson.Result {
	return gjson.GetBytes(append([]byte("{"), append(slices.Clone(a.Body), '}')...), "result")
}

// naming is an answer to status with another newest block.
func naming(a *node.Answer, block gjson.Result) *node.Answer {
	status := resultOf(a).Raw
	for _, field := range [][2]string{
		{"block_hash", "block_id.hash"}, {"app_hash", "header.app_hash"}, {"block_height", "header.height"}, {"block_time", "header.time"},
	} {
		was := gjson.Get(status, "sync_info.latest_"+field[0])
		status = status[:was.Index] + block.Get(field[1]).Raw + status[was.Index+len(was.Raw):]
	}
	named := *a
	named.Body = []byte(`"result":` + status)
	return &named
}
