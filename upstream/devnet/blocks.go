package devnet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// emptyHash is the digest of nothing.
var emptyHash = sha256.Sum256(nil)

// blockID names a block, in CometBFT's JSON.
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

// block is as small as one can be.
func (c *chain) block(h int64) json.RawMessage {
	s := c.at(h)
	return fmt.Appendf(nil, `{"header":%s,"data":{"txs":[%q]},"evidence":{"evidence":[]},"last_commit":{"height":"%d","round":0,"block_id":%s,"signatures":[{"block_id_flag":2,"validator_address":"%X","timestamp":%q,"signature":%q}]}}`,
		c.header(h), base64Text(c.transaction(h)), h-1, c.blockID(h-1), s.proposer, stamp(c.blockTime(h)), base64Text(s.hash("signature")))
}

// status says what the node is and which block it is at: for a moment one that
// cannot be read yet.
func (n *Node) status() any {
	c := n.chain
	height := max(1, c.shown()-n.lag.Load()) + n.ahead()
	latest := c.at(height)
	return map[string]any{
		"node_info": map[string]any{
			"protocol_version": map[string]string{"p2p": "8", "block": "11", "app": "0"},
			"id":               hex.EncodeToString(c.genesis.proposer), "listen_addr": "tcp://127.0.0.1:26656", "network": c.id, "version": "0.38.19",
			"channels": "40202122233038606100", "moniker": "devnet", "other": map[string]string{"tx_index": "off", "rpc_address": n.comet.url()},
		},
		"sync_info": map[string]any{
			"latest_block_hash": upperHex(latest.hash("block")), "latest_app_hash": upperHex(latest.hash("app")),
			"latest_block_height": strconv.FormatInt(height, 10), "latest_block_time": stamp(c.blockTime(height)),
			"earliest_block_hash": upperHex(c.at(1).hash("block")), "earliest_app_hash": upperHex(emptyHash[:]),
			"earliest_block_height": "1", "earliest_block_time": stamp(c.blockTime(1)), "catching_up": n.catchingUp.Load(),
		},
		"validator_info": map[string]any{
			"address":      upperHex(latest.proposer),
			"pub_key":      map[string]string{"type": "tendermint/PubKeySecp256k1", "value": base64Text(c.genesis.validators[0].pubKey)},
			"voting_power": "90000000000",
		},
	}
}

func upperHex(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }
