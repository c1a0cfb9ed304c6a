package indexer

import (
	"context"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/evm"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// header is what counts of a block.
type header struct {
	hash, parent ledger.Hash
	time         time.Time
}

// getHeader asks for a block without its transactions.
func getHeader(block int64) evm.Call {
	return evm.Call{Method: "eth_getBlockByNumber", Params: []any{evm.Hex(block), false}}
}

func readHeader(block gjson.Result, number int64) (h header, err error) {
	if !block.IsObject() {
		return h, evm.Lag("it does not have block %d", number)
	}
	n, err := evm.Quantity(block.Get("number").Str)
	if err != nil || n != number {
		return h, evm.Refusal("it sent block %d for %d", n, number)
	}
	if h.time, err = blockTime(block.Get("timestamp").Str); err != nil {
		return h, evm.Refusal("block %d: %w", number, err)
	}
	for name, to := range map[string]*ledger.Hash{"hash": &h.hash, "parentHash": &h.parent} {
		if *to, err = parseHash(block.Get(name).Str); err != nil {
			return h, evm.Refusal("block %d, %s: %w", number, name, err)
		}
	}
	return h, nil
}

// date gives each event its block's time. Newer clients say it in the log; of
// others the blocks that have logs are asked for.
func date(ctx context.Context, e *evm.Endpoint, b *blocks) error {
	known := map[int64]time.Time{b.from: b.began, b.to: b.last.Time}
	var missing []int64
	for i := range b.events {
		event := &b.events[i]
		if _, ok := known[event.Block]; !ok {
			if known[event.Block] = event.Time; event.Time.IsZero() {
				missing = append(missing, event.Block)
			}
		}
	}
	if err := readTimes(ctx, e, missing, known); err != nil {
		return err
	}
	for i := range b.events {
		b.events[i].Time = known[b.events[i].Block]
	}
	return nil
}

func readTimes(ctx context.Context, e *evm.Endpoint, numbers []int64, times map[int64]time.Time) error {
	if len(numbers) == 0 {
		return nil
	}
	calls := make([]evm.Call, len(numbers))
	for i, n := range numbers {
		calls[i] = getHeader(n)
	}
	_, answers, err := e.AtHead(ctx, 0, calls...)
	if err != nil {
		return err
	}
	results, err := evm.Results(answers)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		h, err := readHeader(results[i], n)
		if err != nil {
			return err
		}
		times[n] = h.time
	}
	return nil
}
