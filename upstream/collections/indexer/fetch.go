package indexer

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A span is a range of blocks, including both ends.
type span struct{ from, to int64 }

func (s span) blocks() int64 { return s.to - s.from + 1 }

// split divides the span into parts of size blocks. The last part may be smaller.
func (s span) split(size int64) []span {
	parts := make([]span, 0, (s.blocks()+size-1)/size)
	for from := s.from; from <= s.to; from += size {
		parts = append(parts, span{from, min(from+size-1, s.to)})
	}
	return parts
}

// blocks holds the events of a span.
type blocks struct {
	span
	parent  ledger.Hash      // of the first block
	headers map[int64]header // of the first and the last block, or of all blocks
	last    ledger.Cursor    // the last block
	events  []Event          // ordered by position
	source  *evm.Endpoint    // of all blocks
	whole   bool             // headers has all blocks; their blooms, if they have any, show whether logs are missing
	parts   []span           // that were joined; an endpoint returned the logs of each at once
	calls   []span           // of the calls for logs

	compared bool  // another endpoint has the same logs
	held     int64 // bytes reserved for events
}

// of returns the events of a span.
func (b *blocks) of(s span) []Event {
	from := sort.Search(len(b.events), func(i int) bool { return b.events[i].Block >= s.from })
	to := sort.Search(len(b.events), func(i int) bool { return b.events[i].Block > s.to })
	return b.events[from:to:to]
}

// A task is a span to read.
type task struct {
	span
	parent ledger.Hash // of the first block; zero if unknown
	whole  bool        // read the header of each block and check the logs against it
}

// fetch reads a span and sends it in parts, each as long as an endpoint returns at once. It reserves memory for the events of a
// part that waits. It sends a part even if there is too little memory, because others may hold it until this part is applied.
func (x *Indexer) fetch(ctx context.Context, t task, events *account.Hold, parts chan<- *blocks) error {
	for t.from <= t.to {
		part, err := x.fetchPart(ctx, t)
		if err != nil {
			return err
		}
		if size := cap(part.events) * int(unsafe.Sizeof(Event{})); events.Take(size) == nil {
			part.held = int64(size)
		}
		if err := send(ctx, parts, part); err != nil {
			return err
		}
		t.from, t.parent = part.to+1, part.last.Hash
	}
	return nil
}

// fetchPart reads the beginning of a span, as much as an endpoint returns.
func (x *Indexer) fetchPart(ctx context.Context, t task) (b *blocks, err error) {
	ctx, traced := x.startTrace(ctx, "indexer.fetch", t.span)
	defer func() { endTrace(traced, b, err) }()
	err = x.within(ctx, nil, func(e *evm.Session) (err error) {
		for {
			size, perCall := e.Endpoint.Window()
			part := t
			part.to = min(t.to, t.from+size-1)
			b, err = x.request(ctx, e, part, perCall)
			f, failed := errors.AsType[*evm.Failure](err)
			if !failed {
				if err == nil {
					logs := int((part.blocks() + perCall - 1) / perCall)
					e.Endpoint.Fits(part.blocks(), logs+3) // and the calls for the head and two headers
				}
				return err
			}
			// Providers report "too much" with many codes and texts, so most failures may mean it.
			if f.Reason != evm.Refused && f.Reason != evm.Silent {
				return err
			}
			if less := e.Endpoint.TooMuch(part.blocks()); !less || f.Reason == evm.Silent {
				return err
			}
			e.Endpoint.RecordSuccess() // because it responds
			x.metrics.requests.WithLabelValues("too_much").Inc()
		}
	})
	if err == nil {
		err = x.setTimes(ctx, b)
	}
	if err == nil {
		err = x.sampleHeaders(ctx, b)
	}
	if err == nil {
		err = x.checkBlooms(ctx, b)
	}
	return b, err
}

// tryOther calls TryOther of the pool. Status reports the last failure if work has not succeeded for Options.Doubt although the
// endpoints answer other requests. If they answer none, the pool reports that itself (Trouble).
func (x *Indexer) tryOther(ctx context.Context, except *evm.Endpoint, grace time.Duration, work func(*evm.Session) error) error {
	began := time.Now()
	return x.pool.TryOther(ctx, except, grace, func(e *evm.Session) error {
		err := work(e)
		f, failed := errors.AsType[*evm.Failure](err)
		if failed && f.Reason <= evm.Limited && time.Since(began) > x.o.Doubt && x.pool.Trouble(0) == nil {
			x.setErr(fmt.Errorf("no execution client answers a request: %s: %w", e.Endpoint.Name(), f))
		}
		return err
	})
}

// maxContradictions is how often the same response of an endpoint may contradict known data. Even an endpoint with every
// second response wrong rarely repeats one so often.
const maxContradictions = 8

// within does the same as TryOther, but fails if endpoints keep contradicting known data or lag for long, because work
// may depend on an earlier wrong response.
func (x *Indexer) within(ctx context.Context, except *evm.Endpoint, work func(*evm.Session) error) error {
	return x.withinGrace(ctx, except, x.o.Grace, work)
}

// withinGrace is within with another grace time of TryOther.
func (x *Indexer) withinGrace(ctx context.Context, except *evm.Endpoint, grace time.Duration, work func(*evm.Session) error) error {
	began, contradictions := time.Now(), map[string]int{} // by the doubted response
	return x.tryOther(ctx, except, grace, func(e *evm.Session) error {
		err := work(e)
		f, failed := errors.AsType[*evm.Failure](err)
		switch {
		case failed && f.Reason == evm.Inconsistent:
			if contradictions[f.Doubted()]++; contradictions[f.Doubted()] >= maxContradictions*x.pool.Len() {
				return fmt.Errorf("%w: %s: %s", errInconsistent, e.Endpoint.Name(), f.Error())
			}
		case failed && f.Reason == evm.Lagging && time.Since(began) > x.o.Grace:
			return fmt.Errorf("%w: %s: %s", errLagging, e.Endpoint.Name(), f.Error())
		}
		return err
	})
}

// request reads a span from an endpoint in calls of perCall blocks. AtHeadOnce checks that the endpoint has reached the
// span, because a lagging one returns an empty list of logs instead of an error.
func (x *Indexer) request(ctx context.Context, e *evm.Session, t task, perCall int64) (*blocks, error) {
	if e.Endpoint.Single() {
		return x.requestSingly(ctx, e, t)
	}
	spans, numbers := t.split(perCall), []int64{t.from, t.to}
	if t.whole {
		numbers = numbers[:0]
		for n := t.from; n <= t.to; n++ {
			numbers = append(numbers, n)
		}
	}
	var logs []evm.Call
	for _, s := range spans {
		logs = append(logs, x.getLogs(s))
	}
	_, answers, err := e.AtHeadOnce(ctx, t.to, append(getHeaders(numbers), logs...)...)
	switch {
	case err != nil:
		return nil, err
	case e.HeadMayDiffer: // the logs may come from a lagging server, which returns an empty list
		return x.requestSingly(ctx, e, t)
	}
	return x.readBlocks(e.Endpoint, t, spans, numbers, logs, answers)
}

// readBlocks decodes responses: the headers of blocks, and then the logs of consecutive spans.
func (x *Indexer) readBlocks(e *evm.Endpoint, t task, spans []span, numbers []int64, logs []evm.Call, answers []evm.Answer) (*blocks, error) {
	results, err := evm.Results(answers, nil)
	if err != nil {
		return nil, err
	}
	b := &blocks{span: span{spans[0].from, spans[len(spans)-1].to}, source: e}
	if b.headers, err = readHeaders(e, t.parent, numbers, results); err != nil {
		return nil, err
	}
	last := b.headers[b.to]
	b.parent = b.headers[b.from].parent
	b.last = ledger.Cursor{Chain: x.o.Network.ChainID, Block: b.to, Hash: last.hash, Time: last.time, Contracts: x.o.Network.Contracts}
	for i, s := range spans {
		if b.events, err = x.readEvents(b.events, results[len(numbers)+i], s); err != nil {
			return nil, err
		}
	}
	b.whole, b.parts, b.calls = int64(len(b.headers)) == b.blocks(), []span{b.span}, spans
	// If the header before the last was not read, nothing confirms the last hash.
	isolated := len(numbers) == 2 && b.to-b.from > 1
	return b, b.checkHashes(func(block int64) evm.Call {
		if isolated && block == b.to {
			return getHeader(block)
		}
		return logs[(block-b.from)/spans[0].blocks()]
	})
}

// safeDepth is the maximum lag in blocks assumed for a server behind a load balancer if logs and head cannot be read in one
// request.
const safeDepth = 256

// requestSingly reads from an endpoint without batches. It reads the logs of the newest blocks by block hash, which a
// lagging server refuses, and older ones by number.
func (x *Indexer) requestSingly(ctx context.Context, e *evm.Session, t task) (*blocks, error) {
	head, answers, err := e.AtHead(ctx, t.to, getHeader(t.from))
	first, err := evm.Results(answers, err)
	if err != nil {
		return nil, err
	}
	s := span{t.from, max(t.from, min(t.to, head-safeDepth))}
	numbers, logs := []int64{s.from, s.to}, x.getLogs(s)
	calls := []evm.Call{getHeader(s.to), logs}
	if s.from == s.to {
		headers, err := readHeaders(e.Endpoint, t.parent, numbers[:1], first)
		if err != nil {
			return nil, err
		}
		logs = x.getLogsOf(headers[s.from].hash)
		numbers, calls = numbers[:1], []evm.Call{logs}
	}
	_, more, err := e.AtHeadOnce(ctx, t.to, calls...)
	if err != nil {
		return nil, err
	}
	return x.readBlocks(e.Endpoint, t, []span{s}, numbers, []evm.Call{logs}, append(answers, more...))
}

func (x *Indexer) getLogs(s span) evm.Call {
	return x.logsCall(rangeOf(s))
}

func rangeOf(s span) map[string]any {
	return map[string]any{"fromBlock": evm.Hex(s.from), "toBlock": evm.Hex(s.to)}
}

func (x *Indexer) getLogsOf(block ledger.Hash) evm.Call {
	return x.logsCall(map[string]any{"blockHash": block.String()})
}

func (x *Indexer) logsCall(filter map[string]any) evm.Call {
	filter["address"], filter["topics"] = x.o.Network.contracts(), [][]string{topics}
	return evm.Call{Method: "eth_getLogs", Params: []any{filter}}
}

// readEvents appends the events in the logs of a span.
func (x *Indexer) readEvents(events []Event, logs gjson.Result, s span) ([]Event, error) {
	if !logs.IsArray() {
		return nil, evm.Refusal("its logs are not an array")
	}
	before := len(events)
	events, err := x.o.Network.decode(events, logs)
	if errors.Is(err, errPosition) {
		return nil, evm.Contradiction("its logs: %w", err)
	}
	if err != nil {
		return nil, evm.Refusal("its logs: %w", err)
	}
	for i := range events[before:] {
		if n := events[before+i].Block; n < s.from || n > s.to {
			return nil, evm.Refusal("it sent a log of block %d, requested were %d to %d", n, s.from, s.to)
		}
	}
	return events, nil
}
