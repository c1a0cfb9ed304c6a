package events

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// A Block is a block and its execution results in a node's JSON. All events of the block are built from
// it, whether the node announced it or the feed read it.
type Block struct {
	Height   int64
	ChainID  string
	Hash     string // upper-case hex
	Previous string // hash of the parent block

	block   block
	outcome outcome
	parts   parts
	results []json.RawMessage // one per transaction
}

// A block is the result of the method block: the block and its id, in JSON.
type block struct {
	ID    json.RawMessage `json:"block_id"`
	Block json.RawMessage `json:"block"`
}

// An outcome holds a block's execution results in the form of its NewBlock event.
type outcome struct {
	Events    json.RawMessage `json:"events"`
	TxResults json.RawMessage `json:"tx_results"`
	Updates   json.RawMessage `json:"validator_updates"`
	Params    json.RawMessage `json:"consensus_param_updates"`
	AppHash   json.RawMessage `json:"app_hash"`
}

// parts are the members of a block from which events are built.
type parts struct {
	Header json.RawMessage `json:"header"`
	Data   struct {
		Txs []string `json:"txs"` // base64
	} `json:"data"`
	Evidence struct {
		Evidence []json.RawMessage `json:"evidence"`
	} `json:"evidence"`
}

// errTooOld is the error for a block in the form of CometBFT before 0.38.
var errTooOld = errors.New("block has no FinalizeBlock events")

// blockFromResults builds a block from the results of the methods block and block_results.
func blockFromResults(blockResult, blockResultsResult []byte) (*Block, error) {
	var (
		b block
		r struct {
			Height int64 `json:"height,string"`
			outcome
			Events    json.RawMessage `json:"finalize_block_events"` // block_results uses other names for these two
			TxResults json.RawMessage `json:"txs_results"`
		}
	)
	if err := errors.Join(json.Unmarshal(blockResult, &b), json.Unmarshal(blockResultsResult, &r)); err != nil {
		return nil, err
	}
	if r.Events == nil {
		return nil, errTooOld
	}
	r.outcome.Events, r.outcome.TxResults = r.Events, r.TxResults
	built, err := newBlock(b, r.outcome)
	if err == nil && r.Height != built.Height {
		return nil, fmt.Errorf("node returned the results of block %d for block %d", r.Height, built.Height)
	}
	return built, err
}

// blockFromEvent builds a block from the value of its NewBlock event.
func blockFromEvent(value []byte) (*Block, error) {
	var e struct {
		block
		Outcome *outcome `json:"result_finalize_block"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, err
	}
	if e.Outcome == nil {
		return nil, errTooOld
	}
	return newBlock(e.block, *e.Outcome)
}

func newBlock(raw block, o outcome) (*Block, error) {
	b := &Block{block: raw, outcome: o}
	var (
		id struct {
			Hash string `json:"hash"`
		}
		header comet.Header
	)
	err := errors.Join(decode(raw.Block, &b.parts), decode(raw.ID, &id), decode(o.TxResults, &b.results))
	if err = errors.Join(err, decode(b.parts.Header, &header)); err != nil {
		return nil, err
	}
	b.Height, b.ChainID, b.Hash, b.Previous = header.Height, header.ChainID, id.Hash, header.Last.Hash
	switch {
	case b.Height <= 0 || b.Hash == "":
		return nil, errors.New("block has no height or no hash")
	case len(b.parts.Data.Txs) != len(b.results):
		return nil, fmt.Errorf("block %d has %d transactions but %d results", b.Height, len(b.parts.Data.Txs), len(b.results))
	}
	return b, nil
}

// decode unmarshals a member that may be absent.
func decode(member json.RawMessage, into any) error {
	if len(member) == 0 {
		return nil
	}
	return json.Unmarshal(member, into)
}
