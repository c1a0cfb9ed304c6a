package devnet

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// A blockID names a block.
type blockID struct {
	Hash  string `json:"hash"`
	Parts struct {
		Total int    `json:"total"`
		Hash  string `json:"hash"`
	} `json:"parts"`
}

// A header is that of a block, in CometBFT's JSON.
type header struct {
	Version            map[string]string `json:"version"`
	ChainID            string            `json:"chain_id"`
	Height             string            `json:"height"`
	Time               string            `json:"time"`
	LastBlockID        blockID           `json:"last_block_id"`
	LastCommitHash     string            `json:"last_commit_hash"`
	DataHash           string            `json:"data_hash"`
	ValidatorsHash     string            `json:"validators_hash"`
	NextValidatorsHash string            `json:"next_validators_hash"`
	ConsensusHash      string            `json:"consensus_hash"`
	AppHash            string            `json:"app_hash"`
	LastResultsHash    string            `json:"last_results_hash"`
	EvidenceHash       string            `json:"evidence_hash"`
	ProposerAddress    string            `json:"proposer_address"`
}

// A block is as small as one can be.
type block struct {
	Header header `json:"header"`
	Data   struct {
		Txs []string `json:"txs"`
	} `json:"data"`
	Evidence struct {
		Evidence []string `json:"evidence"`
	} `json:"evidence"`
	LastCommit commit `json:"last_commit"`
}

type commit struct {
	Height     string      `json:"height"`
	Round      int         `json:"round"`
	BlockID    blockID     `json:"block_id"`
	Signatures []signature `json:"signatures"`
}

type signature struct {
	Flag      int    `json:"block_id_flag"` // 2 signed
	Address   string `json:"validator_address"`
	Timestamp string `json:"timestamp"`
	Signature []byte `json:"signature"`
}

func (c *chain) blockID(h int64) blockID {
	s := c.at(h)
	id := blockID{Hash: upperHex(s.hash("block"))}
	id.Parts.Total, id.Parts.Hash = 1, upperHex(s.hash("parts"))
	return id
}

func (c *chain) header(h int64) header {
	s, before := c.at(h), c.at(h-1)
	return header{
		Version: map[string]string{"block": "11"}, ChainID: c.id,
		Height: strconv.FormatInt(h, 10), Time: stamp(c.blockTime(h)),
		LastBlockID: c.blockID(h - 1), LastCommitHash: upperHex(s.hash("commit")), DataHash: upperHex(s.hash("data")),
		ValidatorsHash: upperHex(before.hash("validators")), NextValidatorsHash: upperHex(s.hash("validators")),
		ConsensusHash: upperHex(c.at(0).hash("consensus")), AppHash: upperHex(before.hash("app")),
		LastResultsHash: upperHex(before.hash("results")), EvidenceHash: upperHex(emptyHash[:]),
		ProposerAddress: upperHex(s.proposer),
	}
}

func (c *chain) block(h int64) block {
	b := block{Header: c.header(h)}
	b.Data.Txs = []string{base64.StdEncoding.EncodeToString(c.transaction(h))}
	b.Evidence.Evidence = []string{}
	b.LastCommit = commit{
		Height: strconv.FormatInt(h-1, 10), BlockID: b.Header.LastBlockID,
		Signatures: []signature{{2, b.Header.ProposerAddress, b.Header.Time, c.at(h).hash("signature")}},
	}
	return b
}

// status says what the node is and which block it is at: for a moment one that
// cannot be read yet.
func (n *Node) status() any {
	c := n.chain
	height := max(1, c.shown()-n.lag.Load()) + n.ahead()
	latest, earliest := c.header(height), c.header(1)
	first := c.genesis.validators[0]
	return map[string]any{
		"node_info": map[string]any{
			"protocol_version": map[string]string{"p2p": "8", "block": "11", "app": "0"},
			"id":               strings.ToLower(upperHex(c.genesis.proposer)), "listen_addr": "tcp://127.0.0.1:26656", "network": c.id, "version": "0.38.19",
			"channels": "40202122233038606100", "moniker": "devnet", "other": map[string]string{"tx_index": "off", "rpc_address": n.comet.url()},
		},
		"sync_info": map[string]any{
			"latest_block_hash": c.blockID(height).Hash, "latest_app_hash": upperHex(c.at(height).hash("app")),
			"latest_block_height": latest.Height, "latest_block_time": latest.Time,
			"earliest_block_hash": c.blockID(1).Hash, "earliest_app_hash": upperHex(emptyHash[:]),
			"earliest_block_height": "1", "earliest_block_time": earliest.Time, "catching_up": n.catchingUp.Load(),
		},
		"validator_info": map[string]any{
			"address":      latest.ProposerAddress,
			"pub_key":      map[string]string{"type": "tendermint/PubKeySecp256k1", "value": base64.StdEncoding.EncodeToString(first.pubKey)},
			"voting_power": "90000000000",
		},
	}
}

func upperHex(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }
