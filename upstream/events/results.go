package events

import (
	"encoding/json"
	"errors"
	"fmt"
)

// A Block is a block with what running it came to, as a node's JSON has them. All
// events of the block are made of it, whether the node announced it or was asked for it.
type Block struct {
	Height   int64
	ChainID  string
	Hash     string // upper-case hex
	Previous string // hash of the block before

	block   block
	outcome outcome
	parts   parts
	results []json.RawMessage // of the transactions
}

// A block is the result of the method of that name.
type block struct {
	ID    json.RawMessage `json:"block_id"`
	Block json.RawMessage `json:"block"`
}

// An outcome is what running a block came to, as its event has it.
type outcome struct {
	Events    json.RawMessage `json:"events"`
	TxResults json.RawMessage `json:"tx_results"`
	Updates   json.RawMessage `json:"validator_updates"`
	Params    json.RawMessage `json:"consensus_param_updates"`
	AppHash   json.RawMessage `json:"app_hash"`
}

// parts are the members of a block that events are made of.
type parts struct {
	Header json.RawMessage `json:"header"`
	Data   struct {
		Txs []string `json:"txs"` // base64
	} `json:"data"`
	Evidence struct {
		Evidence []json.RawMessage `json:"evidence"`
	} `json:"evidence"`
}

// errTooOld is the error for a block as CometBFT before 0.38 has it.
var errTooOld = errors.New("a block without the events of FinalizeBlock")

// fromResults makes a block of the results of the methods block and block_results.
func fromResults(ofBlock, ofBlockResults []byte) (*Block, error) {
	var (
		b block
		r struct {
			Height int64 `json:"height,string"`
			outcome
			Events    json.RawMessage `json:"finalize_block_events"` // of other names here
			TxResults json.RawMessage `json:"txs_results"`
		}
	)
	if err := errors.Join(json.Unmarshal(ofBlock, &b), json.Unmarshal(ofBlockResults, &r)); err != nil {
		return nil, err
	}
	if r.Events == nil {
		return nil, errTooOld
	}
	r.outcome.Events, r.outcome.TxResults = r.Events, r.TxResults
	made, err := newBlock(b, r.outcome)
	if err == nil && r.Height != made.Height {
		return nil, fmt.Errorf("the results of block %d are those of %d", made.Height, r.Height)
	}
	return made, err
}

// fromEvent makes a block of the value of its NewBlock event.
func fromEvent(value []byte) (*Block, error) {
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

func newBlock(own block, o outcome) (*Block, error) {
	b := &Block{block: own, outcome: o}
	var (
		id struct {
			Hash string `json:"hash"`
		}
		header struct {
			ChainID string `json:"chain_id"`
			Height  int64  `json:"height,string"`
			Last    struct {
				Hash string `json:"hash"`
			} `json:"last_block_id"`
		}
	)
	err := errors.Join(decode(own.Block, &b.parts), decode(own.ID, &id), decode(o.TxResults, &b.results))
	if err = errors.Join(err, decode(b.parts.Header, &header)); err != nil {
		return nil, err
	}
	b.Height, b.ChainID, b.Hash, b.Previous = header.Height, header.ChainID, id.Hash, header.Last.Hash
	switch {
	case b.Height <= 0 || b.Hash == "":
		return nil, errors.New("a block without a height or a hash")
	case len(b.parts.Data.Txs) != len(b.results):
		return nil, fmt.Errorf("block %d has %d transactions and results of %d", b.Height, len(b.parts.Data.Txs), len(b.results))
	}
	return b, nil
}

// decode is json.Unmarshal of a member that may be absent.
func decode(member json.RawMessage, into any) error {
	if len(member) == 0 {
		return nil
	}
	return json.Unmarshal(member, into)
}
