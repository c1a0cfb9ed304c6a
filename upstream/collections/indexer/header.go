package indexer

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// header is what counts of a block.
type header struct {
	hash, parent ledger.Hash
	time         time.Time
	bloom        bloom // of the block's logs; nil where it is not told
}

// getHeader asks for a block without its transactions.
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

// readHeader reads the header of a block that an endpoint sent. It is a contradiction if the endpoint
// told another hash of the block before.
func readHeader(e *evm.Endpoint, block gjson.Result, number int64) (header, error) {
	h, err := parseHeader(block, number)
	if err != nil {
		return h, err
	}
	return h, e.Told(number, h.hash)
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

// readHeaders reads the headers of ascending blocks, of which neighbours have to be
// parent and child, and the first a child of a block, where its hash is known. Those
// before one that is no child are confirmed, so that only that one is in doubt.
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
		before, known := headers[n-1]
		if i == 0 {
			before.hash, known = parent, parent != (ledger.Hash{})
		}
		if known && before.hash != h.parent {
			return nil, evm.Contradiction("the parent of block %d is %v, and block %d is %v", n, h.parent, n-1, before.hash).Doubting(getHeader(n))
		}
		headers[n] = h
	}
	return headers, nil
}

// agree checks that the logs say of each block the hash that its header has, or all the same one
// where no header is known. In doubt is the call that is told for a block.
func (b *blocks) agree(doubted func(block int64) evm.Call) error {
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
			first = cmp.Or(first, evm.Contradiction("a log says that block %d is %v, and it is %v", e.Block, e.BlockHash, want))
			calls = append(calls, doubted(e.Block))
		}
	}
	if first == nil {
		return nil
	}
	return first.Doubting(calls...)
}

// date gives each event its block's time. Older clients do not say it in the log.
func (x *Indexer) date(ctx context.Context, b *blocks) error {
	var missing []int64
	for i := range b.events {
		event := &b.events[i]
		if _, known := b.headers[event.Block]; !known && event.Time.IsZero() && (len(missing) == 0 || missing[len(missing)-1] != event.Block) {
			missing = append(missing, event.Block)
		}
	}
	if len(missing) > 0 {
		if err := x.readTimes(ctx, b, missing); err != nil {
			return err
		}
	}
	for i := range b.events {
		if h, known := b.headers[b.events[i].Block]; known {
			b.events[i].Time = h.time
		}
	}
	return nil
}

// readTimes reads the headers of blocks.
func (x *Indexer) readTimes(ctx context.Context, b *blocks, numbers []int64) error {
	return x.within(ctx, nil, func(s *evm.Session) error {
		_, answers, err := s.AtHead(ctx, b.to, getHeaders(numbers)...)
		results, err := evm.Results(answers, err)
		if err != nil {
			return err
		}
		got, err := readHeaders(s.Endpoint, ledger.Hash{}, numbers, results)
		if err != nil {
			return err
		}
		if err := (&blocks{headers: got, events: b.events}).agree(getHeader); err != nil {
			return err
		}
		maps.Copy(b.headers, got)
		return nil
	})
}
