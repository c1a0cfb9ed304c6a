package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// Ask implements [blocks.Source].
func (k *call) Ask(ctx context.Context, _ *blocks.Read, ask node.Request, _ *cache.Entry) (*node.Answer, error) {
	a, err := k.d.reader.Nodes.Fetch(ctx, ask)
	if err == nil && k.m.name == "status" && a.Reason == node.OK {
		a, err = k.readableStatus(ctx, ask, a)
	}
	return a, err
}

// params returns the parameters to send. A read of state gets the height.
func (k *call) params(height int64) json.RawMessage {
	if k.rawParams != nil {
		return k.rawParams
	}
	a := k.sent
	if k.class == blocks.Live && height > 0 {
		a = a.with(k.m, "height", json.RawMessage(`"`+strconv.FormatInt(height, 10)+`"`))
	}
	return k.m.object(a)
}

// Entry implements [blocks.Source].
func (k *call) Entry(_ *blocks.Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	e := k.d.reader.NewEntry(a)
	e.Expires = k.expiry(a, e.ReadAt, k.d.reader.Nodes.Tip())
	blocks.SetContent(e, before, statusOf(a), respond.JSON, a.Body, !a.Unkept)
	return e, nil
}

// statusOf returns 404 for a success that contains no block or, from some servers in front of nodes, nothing at all, and otherwise
// what package state returns.
func statusOf(a *node.Answer) int {
	empty := string(a.Body) == `"result":null` || string(a.Body) == `"result":{}`
	if a.Reason == node.OK && (empty || bytes.Contains(a.Body[:min(len(a.Body), 200)], []byte(`"block":null`)) || bytes.HasPrefix(a.Body, []byte(`"result":{"header":null`))) {
		return http.StatusNotFound
	}
	return state.StatusOf(a)
}

// expiry returns a time at which an answer expires even if its class would keep it longer; zero if only the class
// decides. A commit that is not canonical expires at once, because the node replaces it at the next block.
func (k *call) expiry(a *node.Answer, now time.Time, tip node.Tip) time.Time {
	if k.m.name == "commit" && a.Reason == node.OK && !resultOf(a).Get("canonical").Bool() {
		return now
	}
	if k.class == blocks.Found || k.m.name == "tx_search" || k.m.name == "block_search" {
		return blocks.IndexedExpiry(statusOf(a) == http.StatusOK, k.class == blocks.Found, now, tip)
	}
	return blocks.Expiry(a, now, tip, k.d.reader.Negative())
}

// readableWithin is how long status waits until the state of the block that the node names can be read, which
// usually takes some milliseconds.
const readableWithin = 250 * time.Millisecond

// readableStatus waits up to readableWithin until the state of the block that an answer to status names can be read, and then
// returns the answer. After that time it returns the answer with the tip as its newest block, or unchanged if the tip is
// unknown.
func (k *call) readableStatus(ctx context.Context, r node.Request, a *node.Answer) (*node.Answer, error) {
	wait, cancel := context.WithTimeout(ctx, readableWithin)
	defer cancel()
	if k.d.reader.Nodes.WaitHeight(wait, resultOf(a).Get("sync_info.latest_block_height").Int()) == nil {
		return a, nil
	}
	tip := k.d.reader.Nodes.Tip()
	if !tip.Known {
		return a, nil
	}
	r.Call = &node.Call{Method: "blockchain", Params: func(int64) json.RawMessage {
		return fmt.Appendf(nil, `{"minHeight":"%d","maxHeight":"%[1]d"}`, tip.Height)
	}}
	chain, err := k.d.reader.Nodes.Fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	block := resultOf(chain).Get("block_metas.0")
	if !block.Exists() {
		return nil, &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node does not report the newest block", Err: fmt.Errorf("blockchain: %.200s", chain.Body)}
	}
	return withNewestBlock(a, block), nil
}

// resultOf returns the result of an answer, which is empty for an error.
func resultOf(a *node.Answer) gjson.Result {
	return gjson.GetBytes(append([]byte("{"), append(slices.Clone(a.Body), '}')...), "result")
}

// withNewestBlock returns an answer to status with another newest block. It changes only fields that both have.
func withNewestBlock(a *node.Answer, block gjson.Result) *node.Answer {
	status := resultOf(a).Raw
	for _, field := range [][2]string{
		{"block_hash", "block_id.hash"}, {"app_hash", "header.app_hash"}, {"block_height", "header.height"}, {"block_time", "header.time"},
	} {
		old, newest := gjson.Get(status, "sync_info.latest_"+field[0]), block.Get(field[1])
		if old.Exists() && newest.Exists() {
			status = status[:old.Index] + newest.Raw + status[old.Index+len(old.Raw):]
		}
	}
	changed := *a
	changed.Body = []byte(`"result":` + status)
	return &changed
}
