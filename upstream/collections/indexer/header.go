package indexer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A header is the used part of a block's header.
type header struct {
	hash, parent ledger.Hash
	time         time.Time
	bloom        bloom // of the block's logs; nil if absent
}

// getHeader returns the call for a block without its transactions.
func getHeader(block int64) evm.Call {
	return evm.Call{Method: "eth_getBlockByNumber", Params: []any{evm.Hex(block), false}}
}

func getHeaders(numbers []int64) []evm.Call {
	calls := make([]evm.Call, len(numbers))
	for i, n := range numbers {
		calls[i] = getHeader(n)
	}
	return calls
}

// readHeader decodes a block from an endpoint. If the endpoint returned another hash for the block before, the error is a
// contradiction.
func readHeader(e *evm.Endpoint, block gjson.Result, number int64) (header, error) {
	h, err := parseHeader(block, number)
	if err != nil {
		return h, err
	}
	return h, e.RecordHash(number, h.hash)
}

func parseHeader(block gjson.Result, number int64) (h header, err error) {
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
	h.bloom = readBloom(block.Get("logsBloom").Str)
	for name, to := range map[string]*ledger.Hash{"hash": &h.hash, "parentHash": &h.parent} {
		if *to, err = parseHash(block.Get(name).Str); err != nil {
			return h, evm.Refusal("block %d, %s: %w", number, name, err)
		}
	}
	return h, nil
}

// readHeaders decodes the headers of blocks in ascending order. It checks the parent hashes of consecutive blocks, and of
// the first block if parent is not zero. If a header does not continue the previous ones, only this header is in doubt.
func readHeaders(e *evm.Endpoint, parent ledger.Hash, numbers []int64, results []gjson.Result) (map[int64]header, error) {
	headers := make(map[int64]header, len(numbers))
	for i, n := range numbers {
		h, err := readHeader(e, results[i], n)
		if err != nil {
			return nil, err
		}
		if twin, twice := headers[n]; twice && twin.hash != h.hash {
			return nil, evm.Contradiction("block %d is %v and %v", n, twin.hash, h.hash)
		}
		previous, known := headers[n-1]
		if i == 0 {
			previous.hash, known = parent, parent != (ledger.Hash{})
		}
		if known && previous.hash != h.parent {
			return nil, evm.Contradiction("the parent of block %d is %v, and block %d is %v", n, h.parent, n-1, previous.hash).Doubting(getHeader(n))
		}
		headers[n] = h
	}
	return headers, nil
}

// checkHashes checks that the block hash in each log equals the header's, or that all logs of a block have the same hash
// if its header is unknown. doubted returns the call that is in doubt for a block.
func (b *blocks) checkHashes(doubted func(block int64) evm.Call) error {
	var first *evm.Failure
	var calls []evm.Call
	for i := range b.events {
		e := &b.events[i]
		want := e.BlockHash
		if h, known := b.headers[e.Block]; known {
			want = h.hash
		} else if i > 0 && b.events[i-1].Block == e.Block {
			want = b.events[i-1].BlockHash
		}
		if e.BlockHash != want {
			first = cmp.Or(first, evm.Contradiction("a log of block %d has block hash %v, want %v", e.Block, e.BlockHash, want))
			calls = append(calls, doubted(e.Block))
		}
	}
	if first == nil {
		return nil
	}
	return first.Doubting(calls...)
}

// setTimes sets the time of each event to the time of its block. Logs of older clients have no time, and some clients send 0.
// If the time in a log is not between the times of the first and the last block, setTimes reads the header of the block.
func (x *Indexer) setTimes(ctx context.Context, b *blocks) error {
	var missing []int64
	earliest, latest := b.headers[b.from].time, b.headers[b.to].time
	for i := range b.events {
		event := &b.events[i]
		wrong := event.Time.Before(earliest) || event.Time.After(latest)
		if _, known := b.headers[event.Block]; !known && wrong && (len(missing) == 0 || missing[len(missing)-1] != event.Block) {
			missing = append(missing, event.Block)
		}
	}
	if err := x.addHeaders(ctx, b, missing); err != nil {
		return err
	}
	for i := range b.events {
		if h, known := b.headers[b.events[i].Block]; known {
			b.events[i].Time = h.time
		}
	}
	return nil
}

// headersAtOnce limits the headers in memory for addHeaders. They may have kilobytes.
const headersAtOnce = 256

// addHeaders reads the headers of blocks and adds them to b.
func (x *Indexer) addHeaders(ctx context.Context, b *blocks, numbers []int64) error {
	for some := range slices.Chunk(numbers, headersAtOnce) {
		err := x.within(ctx, nil, func(s *evm.Session) error {
			_, answers, err := s.AtHead(ctx, b.to, getHeaders(some)...)
			results, err := evm.Results(answers, err)
			if err != nil {
				return err
			}
			got, err := readHeaders(s.Endpoint, ledger.Hash{}, some, results)
			if err != nil {
				return err
			}
			if err := (&blocks{headers: got, events: b.events}).checkHashes(getHeader); err != nil {
				return err
			}
			maps.Copy(b.headers, got)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
