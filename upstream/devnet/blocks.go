package devnet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// emptyHash is the digest of nothing.
var emptyHash = sha256.Sum256(nil)

// proposer is the address of the validator that makes all blocks.
func (c *chain) proposer() []byte { return c.hash("proposer", 0)[:20] }

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// blockID is the identifier of a block in CometBFT's JSON.
func (c *chain) blockID(h int64) json.RawMessage {
	return fmt.Appendf(nil, `{"hash":"%X","parts":{"total":1,"hash":"%X"}}`, c.hash("block", h), c.hash("parts", h))
}

// header is that of a block.
func (c *chain) header(h int64) json.RawMessage {
	return fmt.Appendf(nil, `{"version":{"block":"11"},"chain_id":%q,"height":"%d","time":%q,"last_block_id":%s,"last_commit_hash":"%X","data_hash":"%X","validators_hash":"%X","next_validators_hash":"%X",`+
		`"consensus_hash":"%X","app_hash":"%X","last_results_hash":"%X","evidence_hash":"%X","proposer_address":"%X"}`,
		c.id, h, stamp(c.blockTime(h)), c.blockID(h-1), c.hash("commit", h), c.hash("data", h), c.hash("validators", h-1), c.hash("validators", h),
		c.hash("consensus", 0), c.hash("app", h-1), c.hash("results", h-1), emptyHash, c.proposer())
}

// block is a block with its transactions and one signature.
func (c *chain) block(h int64) json.RawMessage {
	return fmt.Appendf(nil, `{"header":%s,"data":{"txs":[%s]},"evidence":{"evidence":[]},"last_commit":{"height":"%d","round":0,"block_id":%s,"signatures":[{"block_id_flag":2,"validator_address":"%X","timestamp":%q,"signature":%q}]}}`,
		c.header(h), joined(c.transactions(h), func(t cosmos.Transaction) string { return `"` + state.Base64(t.Raw) + `"` }), h-1, c.blockID(h-1), c.proposer(), stamp(c.blockTime(h)), state.Base64(c.hash("signature", h)))
}

// status says what the node is and which block it is at: for a moment one that
// cannot be read yet.
func (n *Node) status() []byte {
	c := n.chain
	height := max(1, c.proposed.Load()-n.lag.Load()) + n.ahead()
	_, _, txIndex := c.application()
	return fmt.Appendf(nil, `{"node_info":{"protocol_version":{"p2p":"8","block":"11","app":"0"},"id":"%x","listen_addr":"tcp://127.0.0.1:26656","network":%q,"version":"0.38.19",`+
		`"channels":"40202122233038606100","moniker":"devnet","other":{"tx_index":%q,"rpc_address":%q}},`+
		`"sync_info":{"latest_block_hash":"%X","latest_app_hash":"%X","latest_block_height":"%d","latest_block_time":%q,`+
		`"earliest_block_hash":"%X","earliest_app_hash":"%X","earliest_block_height":"1","earliest_block_time":%q,"catching_up":%t},`+
		`"validator_info":{"address":"%X","pub_key":{"type":"tendermint/PubKeySecp256k1","value":%q},"voting_power":"90000000000"}}`,
		c.proposer(), c.id, txIndex, n.comet.url(),
		c.hash("block", height), c.hash("app", height), height, stamp(c.blockTime(height)),
		c.hash("block", 1), emptyHash, stamp(c.blockTime(1)), n.catchingUp.Load(),
		c.proposer(), state.Base64(c.hash("key", 0)))
}

// transaction is the only one of a block. In the dialect of Story it carries a
// block of the execution client, as MsgExecutionPayload does: of its fields, the
// hash and the number.
func (c *chain) transaction(h int64) []byte {
	hash := c.hash("transaction", h)
	if c.cosmos != nil {
		return hash
	}
	payload := bytesField(nil, 1, hash)
	payload = protowire.AppendVarint(protowire.AppendTag(payload, 7, protowire.VarintType), uint64(max(0, c.evmStart+h-c.first))) //nolint:gosec // not negative
	message := bytesField(bytesField(nil, 1, []byte("story1v9nlyfvy3r3l2nrhxmhuxwxk2e2yqpfhnzpcvy")), 4, payload)
	wrapped := bytesField(bytesField(nil, 1, []byte("/story.evmengine.v1.types.MsgExecutionPayload")), 2, message)
	return bytesField(nil, 1, bytesField(nil, 1, wrapped))
}

func bytesField(b []byte, num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
}
