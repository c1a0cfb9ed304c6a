package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

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
	err = x.fleet.try(ctx, func(e *endpoint) (err error) {
		for {
			blocks, perCall := e.ask()
			asked := span{s.from, min(s.to, s.from+blocks-1)}
			part, err = x.request(ctx, e, asked, perCall)
			t, failed := errors.AsType[*trouble](err)
			if !failed {
				if err == nil {
					e.fits(asked.blocks())
				}
				return err
			}
			// The words and codes for "too much" are legion, so any failure may
			// mean it but those that say otherwise.
			if t.reason == limited || t.reason == forbidden || t.reason == lagging {
				return err
			}
			if less := e.tooMuch(asked.blocks()); !less || t.reason == silent {
				return err
			}
			e.well() // it answers
			x.metrics.asked("too much")
		}
	})
	return part, err
}

// request asks an endpoint for a span, in calls of so many blocks. Its head comes
// in the same batch: an endpoint that has not got so far answers with no logs,
// which is no answer.
func (x *Indexer) request(ctx context.Context, e *endpoint, s span, perCall int64) (*blocks, error) {
	parts := s.cut(perCall)
	answers, err := e.each(ctx, x.windowCalls(s, parts)...)
	if err != nil {
		return nil, err
	}
	if _, err := covers(answers[0], s.to); err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
	}
	first, err := readHeader(answers[1].result, s.from)
	if err != nil {
		return nil, err
	}
	last, err := readHeader(answers[2].result, s.to)
	if err != nil {
		return nil, err
	}
	var events []Event
	for i, part := range parts {
		if events, err = x.readEvents(events, answers[callsBeforeLogs+i].result, part); err != nil {
			return nil, err
		}
	}
	got := &blocks{span: s, parent: first.parent, last: last.cursor(x.o.Network.ChainID, s.to), events: events}
	return got, x.date(ctx, e, got, map[int64]time.Time{s.from: first.time, s.to: last.time})
}

// callsBeforeLogs is how many of windowCalls come before those for logs.
const callsBeforeLogs = 3

// windowCalls ask for the head, the span's first and last block, and the logs of
// its parts.
func (x *Indexer) windowCalls(s span, parts []span) []call {
	calls := []call{
		{method: "eth_blockNumber"},
		{"eth_getBlockByNumber", []any{hexQuantity(s.from), false}},
		{"eth_getBlockByNumber", []any{hexQuantity(s.to), false}},
	}
	for _, part := range parts {
		calls = append(calls, call{"eth_getLogs", []any{x.filter(part)}})
	}
	return calls
}

// covers reads a head, and checks that it is not below a block.
func covers(a answer, block int64) (head int64, err error) {
	if a.err != nil {
		return 0, a.err
	}
	if head, err = quantity(a.result.Str); err != nil {
		return 0, refusal("its head: %w", err)
	}
	if head < block {
		return head, &trouble{reason: lagging, err: fmt.Errorf("its head is %d, wanted is %d", head, block)}
	}
	return head, nil
}

// filter is the argument of eth_getLogs.
func (x *Indexer) filter(s span) map[string]any {
	var contracts []string
	for _, c := range x.o.Network.contracts() {
		contracts = append(contracts, c.String())
	}
	return map[string]any{
		"fromBlock": hexQuantity(s.from), "toBlock": hexQuantity(s.to),
		"address": contracts, "topics": [][]string{topics},
	}
}

// readEvents appends the events of the logs of a span.
func (x *Indexer) readEvents(events []Event, logs gjson.Result, s span) ([]Event, error) {
	if !logs.IsArray() {
		return nil, refusal("its logs are no array")
	}
	before := len(events)
	events, err := x.o.Network.decode(events, logs)
	if err != nil {
		return nil, refusal("its logs: %w", err)
	}
	for i := range events[before:] {
		if n := events[before+i].Block; n < s.from || n > s.to {
			return nil, refusal("it sent a log of block %d, asked for were %d to %d", n, s.from, s.to)
		}
	}
	return events, nil
}

// header is what counts of a block.
type header struct {
	hash, parent ledger.Hash
	time         time.Time
}

func (h header) cursor(chain, block int64) ledger.Cursor {
	return ledger.Cursor{Chain: chain, Block: block, Hash: h.hash, Time: h.time}
}

func readHeader(block gjson.Result, number int64) (h header, err error) {
	if !block.IsObject() {
		return h, &trouble{reason: lagging, err: fmt.Errorf("it does not have block %d", number)}
	}
	n, err := quantity(block.Get("number").Str)
	if err != nil || n != number {
		return h, refusal("it sent block %d for %d", n, number)
	}
	if h.time, err = blockTime(block.Get("timestamp").Str); err != nil {
		return h, refusal("block %d: %w", number, err)
	}
	for name, to := range map[string]*ledger.Hash{"hash": &h.hash, "parentHash": &h.parent} {
		if *to, err = parseHash(block.Get(name).Str); err != nil {
			return h, refusal("block %d, %s: %w", number, name, err)
		}
	}
	return h, nil
}

// date gives each event its block's time. Newer clients say it in the log; of
// others the blocks that have logs are asked for.
func (x *Indexer) date(ctx context.Context, e *endpoint, b *blocks, known map[int64]time.Time) error {
	var missing []int64
	for i := range b.events {
		event := &b.events[i]
		if _, ok := known[event.Block]; !ok {
			if known[event.Block] = event.Time; event.Time.IsZero() {
				missing = append(missing, event.Block)
			}
		}
	}
	for len(missing) > 0 {
		some := missing[:min(e.several(), len(missing))]
		missing = missing[len(some):]
		err := readTimes(ctx, e, some, known)
		if e.called(len(some), err); err != nil {
			return err
		}
	}
	for i := range b.events {
		b.events[i].Time = known[b.events[i].Block]
	}
	return nil
}

func readTimes(ctx context.Context, e *endpoint, numbers []int64, times map[int64]time.Time) error {
	calls := make([]call, len(numbers))
	for i, n := range numbers {
		calls[i] = call{"eth_getBlockByNumber", []any{hexQuantity(n), false}}
	}
	results, err := e.batch(ctx, calls...)
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
