package indexer

import (
	"context"
	"errors"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/evm"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// A span is consecutive blocks, both ends included.
type span struct{ from, to int64 }

func (s span) blocks() int64 { return s.to - s.from + 1 }

// cut makes parts of so many blocks, the last one with what is left.
func (s span) cut(size int64) []span {
	parts := make([]span, 0, (s.blocks()+size-1)/size)
	for from := s.from; from <= s.to; from += size {
		parts = append(parts, span{from, min(from+size-1, s.to)})
	}
	return parts
}

// blocks are the events of a span.
type blocks struct {
	span
	parent ledger.Hash   // of the first block
	began  time.Time     // the first block's
	last   ledger.Cursor // the last block
	events []Event       // each with its block's time
}

// fetch reads a span and passes it on in as many parts as the endpoints make it.
func (x *Indexer) fetch(ctx context.Context, s span, parts chan<- *blocks) error {
	for s.from <= s.to {
		part, err := x.fetchPart(ctx, s)
		if err != nil {
			return err
		}
		select {
		case parts <- part:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.from = part.to + 1
	}
	return nil
}

// fetchPart reads as much of the beginning of a span as an endpoint gives.
func (x *Indexer) fetchPart(ctx context.Context, s span) (part *blocks, err error) {
	ctx, traced := x.startTrace(ctx, "indexer.fetch", s)
	defer func() { endTrace(traced, part, err) }()
	err = x.pool.Try(ctx, func(e *evm.Endpoint) (err error) {
		for {
			blocks, perCall := e.Window()
			asked := span{s.from, min(s.to, s.from+blocks-1)}
			part, err = x.request(ctx, e, asked, perCall)
			f, failed := errors.AsType[*evm.Failure](err)
			if !failed {
				if err == nil {
					e.Fits(asked.blocks(), int((asked.blocks()+perCall-1)/perCall)+3)
					e.Well()
					err = date(ctx, e, part)
				}
				return err
			}
			// Providers say "too much" in many words and codes, so any failure may
			// mean it, except those that say otherwise.
			if f.Reason != evm.Refused && f.Reason != evm.Silent {
				return err
			}
			if less := e.TooMuch(asked.blocks()); !less || f.Reason == evm.Silent {
				return err
			}
			e.Well() // it answers
			x.metrics.asked("too much")
		}
	})
	return part, err
}

// request asks an endpoint for a span, in calls of so many blocks. An endpoint
// that has not got so far answers with no logs, which is no answer: AtHead sees to
// that.
func (x *Indexer) request(ctx context.Context, e *evm.Endpoint, s span, perCall int64) (*blocks, error) {
	if e.Single() {
		return x.requestSingly(ctx, e, s)
	}
	parts := s.cut(perCall)
	calls := []evm.Call{getHeader(s.from), getHeader(s.to)}
	for _, part := range parts {
		calls = append(calls, evm.Call{Method: "eth_getLogs", Params: []any{x.filter(part)}})
	}
	answers, err := e.AtHeadOnce(ctx, s.to, calls...)
	if err != nil {
		return nil, err
	}
	results, err := evm.Results(answers)
	if err != nil {
		return nil, err
	}
	return x.readBlocks(parts, results[0], results[1], results[2:])
}

// readBlocks reads the answers for parts that follow one another.
func (x *Indexer) readBlocks(parts []span, from, to gjson.Result, logs []gjson.Result) (*blocks, error) {
	s := span{parts[0].from, parts[len(parts)-1].to}
	first, err := readHeader(from, s.from)
	if err != nil {
		return nil, err
	}
	last, err := readHeader(to, s.to)
	if err != nil {
		return nil, err
	}
	var events []Event
	for i, part := range parts {
		if events, err = x.readEvents(events, logs[i], part); err != nil {
			return nil, err
		}
	}
	return &blocks{span: s, parent: first.parent, began: first.time, last: x.o.Network.cursor(s.to, last), events: events}, nil
}

// safeDepth is how many blocks a server behind a load balancer is trusted to lag
// at the most, where it cannot be asked for logs and for its head at once.
const safeDepth = 256

// requestSingly asks an endpoint that takes one call at once. Logs of the newest
// blocks are asked for by the hash of each block, which a server that does not
// have it refuses; those of older ones by their numbers.
func (x *Indexer) requestSingly(ctx context.Context, e *evm.Endpoint, s span) (*blocks, error) {
	head, answers, err := e.AtHead(ctx, s.to, getHeader(s.from))
	if err != nil {
		return nil, err
	}
	s.to = max(s.from, min(s.to, head-safeDepth))
	filter := x.filter(s)
	calls := []evm.Call{getHeader(s.to)}
	if s.from == s.to {
		filter = x.filterWith(map[string]any{"blockHash": answers[0].Result.Get("hash").Str})
		calls = nil
	}
	more, err := e.Each(ctx, append(calls, evm.Call{Method: "eth_getLogs", Params: []any{filter}})...)
	if err != nil {
		return nil, err
	}
	results, err := evm.Results(append(answers, more...))
	if err != nil {
		return nil, err
	}
	logs := results[len(results)-1]
	return x.readBlocks([]span{s}, results[0], results[len(results)-2], []gjson.Result{logs})
}

// filter is the argument of eth_getLogs for a span.
func (x *Indexer) filter(s span) map[string]any {
	return x.filterWith(map[string]any{"fromBlock": evm.Hex(s.from), "toBlock": evm.Hex(s.to)})
}

func (x *Indexer) filterWith(filter map[string]any) map[string]any {
	filter["address"], filter["topics"] = x.o.Network.contracts(), [][]string{topics}
	return filter
}

// readEvents appends the events of the logs of a span.
func (x *Indexer) readEvents(events []Event, logs gjson.Result, s span) ([]Event, error) {
	if !logs.IsArray() {
		return nil, evm.Refusal("its logs are no array")
	}
	before := len(events)
	events, err := x.o.Network.decode(events, logs)
	if err != nil {
		return nil, evm.Refusal("its logs: %w", err)
	}
	for i := range events[before:] {
		if n := events[before+i].Block; n < s.from || n > s.to {
			return nil, evm.Refusal("it sent a log of block %d, asked for were %d to %d", n, s.from, s.to)
		}
	}
	return events, nil
}
