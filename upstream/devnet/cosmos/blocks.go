package cosmos

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// blockJSON renders a block.
func (q *query) blockJSON(h int64) (string, error) {
	txs := ""
	if h >= opening {
		d := state.Digest(q.Seed, "bytes", h)
		txs = `"` + state.Base64(d[:]) + `"`
	}
	at, hash, _ := q.node.Block(h)
	_, before, appHash := q.node.Block(h - 1)
	return fill("block", "chain", q.ID, "txs", txs, "hash", state.Base64(hash), "before", state.Base64(before), "app", state.Base64(appHash), "time", at.UTC().Format(time.RFC3339Nano), "height", h, "below", h-1), nil
}

// latest returns a handler for CometBFT's newest height, which may be above that of the state. ahead adds to it.
func latest(ahead int64, serve func(*query, int64) (string, error)) handler {
	return func(q *query) (string, error) { return serve(q, q.now.Stored+ahead) }
}

// atHeight returns a handler for the height in the path, whatever height the request's header names.
func atHeight(serve func(*query, int64) (string, error)) handler {
	return func(q *query) (string, error) {
		height, _ := strconv.ParseInt(q.args["height"], 10, 64) // validated as an integer
		switch {
		case height > q.now.Stored:
			return "", status.Error(codes.InvalidArgument, "requested block height is bigger then the chain length")
		case height <= 0:
			return "", fmt.Errorf("height must be greater than 0, but got %d", height)
		}
		return serve(q, height)
	}
}

// validatorSet returns the recorded validator set with another height.
func validatorSet(q *query, height int64) (string, error) {
	return q.Paged(fill(tendermint+"/validatorsets/latest", "height", height))
}

func historicalInfo(q *query) (string, error) {
	height, _ := strconv.ParseInt(q.args["height"], 10, 64) // validated as an integer
	if height <= 0 || height > q.Height {
		return "", status.Errorf(codes.NotFound, "historical info for height %d not found", height)
	}
	return fill("historical_info", "chain", q.ID, "height", height), nil
}
