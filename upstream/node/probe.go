package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/heights"
)

// Read implements heights.Reader.
func (e *endpoint) Read(ctx context.Context, height int64) (heights.Reading, error) {
	r := Request{Path: e.client.protocol.probe, Height: height}
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return heights.Reading{}, e.busy(err)
	}
	a, err := e.ask(ctx, r, height)
	turn.End(tellsOfLoad(err))
	if err != nil {
		return heights.Reading{}, err
	}
	return a.reading(), nil
}

// BlockHash implements heights.Reader.
func (e *endpoint) BlockHash(ctx context.Context, height int64) (string, error) {
	base := e.client.protocol.blocks
	if base == "" {
		return "", nil
	}
	r := Request{Path: base + strconv.FormatInt(height+1, 10), Unpinned: true, Cost: Page}
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return "", e.busy(err)
	}
	a, err := e.ask(ctx, r, 0)
	turn.End(tellsOfLoad(err))
	if err != nil {
		return "", err
	}
	hash, err := base64.StdEncoding.DecodeString(gjson.GetBytes(a.Body, "block.header.last_block_id.hash").Str)
	if err == nil && (a.Reason != OK || len(hash) == 0) {
		err = fmt.Errorf("%s names no block before block %d", r.Path, height+1)
	}
	return fmt.Sprintf("%X", hash), err
}

// sounds tells of a failure whether the node reads something else at that height. A
// height is probed once.
func (e *endpoint) sounds(ctx context.Context, r Request, height int64) bool {
	if r.Path == e.client.protocol.probe {
		return false
	}
	if height > 0 && e.sound.Load() == height {
		return true
	}
	sound, _ := e.readable(ctx, height)
	if sound {
		e.sound.Store(height)
	}
	return sound
}

// reading is what an answer says of its endpoint's blocks.
func (a *Answer) reading() heights.Reading {
	r := heights.Reading{Height: a.Height, Latest: a.Latest}
	switch {
	case a.NodeStatus == http.StatusNotFound: // no handler ran
		r.Outcome = heights.Unknown
	case a.Reason == Pruned:
		r.Outcome = heights.Pruned
	case a.Reason == FutureHeight:
		r.Outcome = heights.Future
	}
	return r
}
