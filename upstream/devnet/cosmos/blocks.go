package cosmos

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// blockJSON renders a block.
func (q *query) blockJSON(h int64) (string, error) {
	txs := ""
	if h >= opening {
		txs = `"` + q.hash("bytes", h) + `"`
	}
	at, hash, _ := q.node.Block(h)
	_, before, appHash := q.node.Block(h - 1)
	return fill("block", "chain", q.chain.id, "txs", txs, "hash", base64Text(hash), "before", base64Text(before), "app", base64Text(appHash), "time", stamp(at), "height", h, "below", h-1), nil
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
			return "", fail(invalidArgument, "requested block height is bigger then the chain length")
		case height <= 0:
			return "", fail(unknown, "height must be greater than 0, but got %d", height)
		}
		return serve(q, height)
	}
}

// validatorSet is the document of the set with another height.
func validatorSet(q *query, height int64) (string, error) {
	document := documents()["/cosmos/base/tendermint/v1beta1/validatorsets/latest"]
	_, rest, _ := strings.Cut(document, ",")
	body, err := q.paged("{" + rest)
	return fmt.Sprintf(`{"block_height":"%d","validators":%s,"pagination":{"next_key":null,"total":"%d"}}`,
		height, gjson.Get(body, "validators").Raw, gjson.Get(document, "validators.#").Int()), err
}

func syncing(q *query) (string, error) {
	return fmt.Sprintf(`{"syncing":%t}`, q.now.CatchingUp), nil
}

// evidenceOf answers that there is no evidence with the hash.
func evidenceOf(q *query) (string, error) {
	if _, err := hex.DecodeString(q.args["hash"]); err != nil {
		return "", fail(unknown, "invalid evidence hash: %v", err)
	}
	return "", fail(notFound, "evidence %s not found", q.args["hash"])
}
