package cosmos

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

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

// latest serves what CometBFT has at its newest height, which the state may not have
// reached, or ahead of it by some blocks.
func latest(ahead int64, serve func(*query, int64) (string, error)) handler {
	return func(q *query) (string, error) { return serve(q, q.now.Stored+ahead) }
}

// atHeight serves what CometBFT has at the height in the path, which pinning does not move.
func atHeight(serve func(*query, int64) (string, error)) handler {
	return func(q *query) (string, error) {
		height, err := strconv.ParseInt(q.args["height"], 10, 64)
		switch {
		case err != nil:
			return "", err
		case height > q.now.Stored:
			return "", state.Fail(state.InvalidArgument, "requested block height is bigger then the chain length")
		case height <= 0:
			return "", state.Fail(state.Unknown, "height must be greater than 0, but got %d", height)
		}
		return serve(q, height)
	}
}

// validatorSet is the document of the set with another height.
func validatorSet(q *query, height int64) (string, error) {
	document := documents()["/cosmos/base/tendermint/v1beta1/validatorsets/latest"]
	_, rest, _ := strings.Cut(document, ",")
	body, err := q.Paged("{" + rest)
	return fmt.Sprintf(`{"block_height":"%d","validators":%s,"pagination":{"next_key":null,"total":"%d"}}`,
		height, gjson.Get(body, "validators").Raw, gjson.Get(document, "validators.#").Int()), err
}

func syncing(q *query) (string, error) {
	return fmt.Sprintf(`{"syncing":%t}`, q.now.CatchingUp), nil
}

// rememberedHistory is the parameter historical_entries.
const rememberedHistory = 10_000

func historicalInfo(q *query) (string, error) {
	height, err := strconv.ParseInt(q.args["height"], 10, 64)
	switch {
	case err != nil:
		return "", err
	case height <= max(0, q.Height-rememberedHistory) || height > q.Height:
		return "", state.Fail(state.NotFound, "historical info for height %d not found", height)
	}
	return fill("historical_info", "chain", q.ID, "height", height), nil
}
