package comet

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/protofield"
)

// maxBlock is the maximum size of a block's JSON in bytes. A block with 300 deposits has 1.2 MB.
const maxBlock = 16 << 20

// ErrNoPayload is the error for a block without a payload of an execution client.
var ErrNoPayload = errors.New("block contains no execution payload")

// ExecutionBlock returns the number of the execution client's block in a block. The chain applies the deposits of
// execution block N with the block that contains execution block N+1.
func (c *Client) ExecutionBlock(ctx context.Context, height int64) (int64, error) {
	var reply struct {
		Block struct {
			Header Header `json:"header"`
			Data   struct {
				Txs [][]byte `json:"txs"`
			} `json:"data"`
		} `json:"block"`
	}
	err := c.call(ctx, "block", atHeight(height), maxBlock, &reply)
	switch {
	case err != nil:
		return 0, err
	case reply.Block.Header.Height != height:
		return 0, fmt.Errorf("/block of height %d returned block %d", height, reply.Block.Header.Height)
	case len(reply.Block.Data.Txs) == 0:
		return 0, ErrNoPayload
	}
	return payloadNumber(reply.Block.Data.Txs[0])
}

// Protobuf field numbers of tx.body.messages[0].value.execution_payload.number, and the type of that message.
const (
	txBody, bodyMessages     = 1, 1
	anyType, anyValue        = 1, 2
	executionPayload, number = 4, 7

	payloadType = "/story.evmengine.v1.types.MsgExecutionPayload"
)

func payloadNumber(tx []byte) (int64, error) {
	message := protofield.Bytes(protofield.Bytes(tx, txBody), bodyMessages)
	if string(protofield.Bytes(message, anyType)) != payloadType {
		return 0, ErrNoPayload
	}
	payload := protofield.Bytes(protofield.Bytes(message, anyValue), executionPayload)
	for f := range protofield.All(payload) {
		if v := f.Varint(); f.Number == number && 0 < v && v < 1<<62 {
			return int64(v), nil //nolint:gosec // bounded
		}
	}
	return 0, fmt.Errorf("%w in a known form", ErrNoPayload)
}
