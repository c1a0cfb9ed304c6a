package devnet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// emptyHash is the digest of nothing.
var emptyHash = sha256.Sum256(nil)

// blockID is the identifier of a block in CometBFT's JSON.
func (c *chain) blockID(h int64) json.RawMessage {
	s := c.at(h)
	return fmt.Appendf(nil, `{"hash":"%X","parts":{"total":1,"hash":"%X"}}`, s.hash("block"), s.hash("parts"))
}

// header is that of a block.
func (c *chain) header(h int64) json.RawMessage {
	s, before := c.at(h), c.at(h-1)
	return fmt.Appendf(nil, `{"version":{"block":"11"},"chain_id":%q,"height":"%d","time":%q,"last_block_id":%s,"last_commit_hash":"%X","data_hash":"%X","validators_hash":"%X","next_validators_hash":"%X",`+
		`"consensus_hash":"%X","app_hash":"%X","last_results_hash":"%X","evidence_hash":"%X","proposer_address":"%X"}`,
		c.id, h, stamp(c.blockTime(h)), c.blockID(h-1), s.hash("commit"), s.hash("data"), before.hash("validators"), s.hash("validators"),
		c.at(0).hash("consensus"), before.hash("app"), before.hash("results"), emptyHash, s.proposer)
}

// block is a block with its transactions and one signature.
func (c *chain) block(h int64) json.RawMessage {
	s := c.at(h)
	return fmt.Appendf(nil, `{"header":%s,"data":{"txs":[%s]},"evidence":{"evidence":[]},"last_commit":{"height":"%d","round":0,"block_id":%s,"signatures":[{"block_id_flag":2,"validator_address":"%X","timestamp":%q,"signature":%q}]}}`,
		c.header(h), joined(c.transactions(h), func(t cosmos.Transaction) string { return `"` + base64Text(t.Raw) + `"` }), h-1, c.blockID(h-1), s.proposer, stamp(c.blockTime(h)), base64Text(s.hash("signature")))
}

// status says what the node is and which block it is at: for a moment one that
// cannot be read yet.
func (n *Node) status(int64) []byte {
	c := n.chain
	height := max(1, c.proposed.Load()-n.lag.Load()) + n.ahead()
	latest, first := c.at(height), c.at(1)
	return fmt.Appendf(nil, `{"node_info":{"protocol_version":{"p2p":"8","block":"11","app":"0"},"id":"%x","listen_addr":"tcp://127.0.0.1:26656","network":%q,"version":"0.38.19",`+
		`"channels":"40202122233038606100","moniker":"devnet","other":{"tx_index":%q,"rpc_address":%q}},`+
		`"sync_info":{"latest_block_hash":"%X","latest_app_hash":"%X","latest_block_height":"%d","latest_block_time":%q,`+
		`"earliest_block_hash":"%X","earliest_app_hash":"%X","earliest_block_height":"1","earliest_block_time":%q,"catching_up":%t},`+
		`"validator_info":{"address":"%X","pub_key":{"type":"tendermint/PubKeySecp256k1","value":%q},"voting_power":"90000000000"}}`,
		first.proposer, c.id, c.txIndex(), n.comet.url(),
		latest.hash("block"), latest.hash("app"), height, stamp(c.blockTime(height)),
		first.hash("block"), emptyHash, stamp(c.blockTime(1)), n.catchingUp.Load(),
		latest.proposer, base64Text(first.validators[0].PubKey))
}
