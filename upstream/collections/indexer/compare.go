package indexer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// While catching up, the indexer reads only some headers, so it detects omitted logs only by comparing endpoints. It
// compares parts without logs completely, as far as one request can, and a tenth of each other part.
const (
	heldParts   = 10 // number of parts without events that are compared together
	sampleShare = 10 // one tenth of the blocks of a part with events is compared
)

// comparedCalls are the calls per request that compares an endpoint's logs, after no, one and two refusals. After another
// refusal, each call has a quarter of the blocks, and so on. A share of answered requests, one in retryShare, takes a
// refusal back, because the endpoint may have been slow for other reasons.
var comparedCalls = [...]int{20, 5, 2}

const retryShare = 4

// comparisonSize returns the size of a request that compares an endpoint's logs. No blocks means that it must not
// compare until requests without logs are answered.
func (x *Indexer) comparisonSize(e *evm.Endpoint) (perCall int64, calls int) {
	refusals := x.refusals[e]
	_, perCall = x.pool.Window()
	for ; refusals >= len(comparedCalls); refusals -= len(comparedCalls) {
		perCall /= 4
	}
	return perCall, comparedCalls[refusals]
}

// samples returns the spans whose logs e must compare with the source's. It returns none if all headers were read, if e is
// the source, or after too many refusals.
func (x *Indexer) samples(e *evm.Session, b *blocks, try int) (all []span) {
	perCall, limit := x.comparisonSize(e.Endpoint)
	if b.whole || e.Endpoint == b.source || try > maxSmaller || perCall == 0 {
		return nil
	}
	for _, s := range b.parts {
		if len(b.of(s)) > 0 {
			shares := s.split((s.blocks() + sampleShare - 1) / sampleShare)
			s = shares[rand.IntN(len(shares))]
		}
		all = append(all, s.split(perCall)...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if e.Endpoint.Single() {
		limit = 1 // each call is a request
	}
	return all[:min(len(all), limit)]
}

// markUnverified records that blocks are applied although only one endpoint was read.
func (x *Indexer) markUnverified() {
	x.status.change(func(s *Status) { s.Unverified = true })
}

// compare compares the logs of an endpoint with the logs of b, and records in b whether these were all.
func (x *Indexer) compare(ctx context.Context, e *evm.Session, b *blocks, samples []span, logs []gjson.Result) error {
	compared := int64(0)
	for i, s := range samples {
		compared += s.blocks()
		theirs, err := x.readEvents(nil, logs[i], s)
		if err != nil {
			return err
		}
		ours := b.of(s)
		onlyOurs, onlyTheirs := without(ours, theirs), without(theirs, ours)
		switch {
		case len(onlyOurs)+len(onlyTheirs) == 0:
		case len(onlyOurs) > 0 && len(onlyTheirs) > 0:
			return fmt.Errorf("%w: the logs of blocks %d to %d differ at %s and %s", errInconsistent, s.from, s.to, b.source.Name(), e.Endpoint.Name())
		case len(onlyTheirs) > 0:
			return x.settle(ctx, b, b.source, e.Endpoint, onlyTheirs[0])
		default:
			return x.settle(ctx, b, e.Endpoint, b.source, onlyOurs[0])
		}
	}
	b.compared = b.compared || compared == b.blocks()
	return nil
}

// without returns the events that are not among others. It ignores times, which may be missing, and hashes.
func without(events, others []Event) (rest []Event) {
	normalize := func(e Event) Event {
		e.Time, e.BlockHash = time.Time{}, ledger.Hash{}
		return e
	}
	present := make(map[Event]bool, len(others))
	for _, e := range others {
		present[normalize(e)] = true
	}
	for _, e := range events {
		if !present[normalize(e)] {
			rest = append(rest, e)
		}
	}
	return rest
}

// settle determines whether the endpoint that lacks a log or the one that has it is wrong. The one that has it is wrong if its
// own header rules the log out, or if its header has no bloom and the other one rules the log out. Otherwise the lacking one
// is, unless its header rules the log out. The wrong endpoint is doubted and its data is discarded.
func (x *Indexer) settle(ctx context.Context, b *blocks, lacking, having *evm.Endpoint, log Event) error {
	var headers [2]header // of both
	for i, e := range []*evm.Endpoint{lacking, having} {
		h, err := x.headerOf(ctx, e, log.Block)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w: whether block %d has a log: %s: %s", errInconsistent, log.Block, e.Name(), err.Error())
		case log.BlockHash != h.hash:
			return fmt.Errorf("%w: block %d is %v at %s, and a log says %v", errInconsistent, log.Block, h.hash, e.Name(), log.BlockHash)
		}
		headers[i] = h
	}
	ruledOut := func(h header) bool { return h.bloom != nil && !x.o.Network.promises(h.bloom, log.Kind) }
	wrong, fault := lacking, "omitted a log"
	switch {
	case ruledOut(headers[1]), headers[1].bloom == nil && ruledOut(headers[0]):
		wrong, fault = having, "invented a log"
	case ruledOut(headers[0]):
		return fmt.Errorf("%w: the blooms of block %d differ at %s and %s", errInconsistent, log.Block, lacking.Name(), having.Name())
	}
	if err := x.doubt(ctx, wrong, fault, log.Block); wrong == b.source {
		return err
	}
	return evm.Contradiction("it %s in block %d", fault, log.Block)
}

// headerOf reads a header from one endpoint.
func (x *Indexer) headerOf(ctx context.Context, e *evm.Endpoint, block int64) (h header, err error) {
	err = x.pool.TryOne(e, func(s *evm.Session) error {
		_, answers, err := s.Poll(ctx, block, getHeader(block))
		results, err := evm.Results(answers, err)
		if err == nil {
			h, err = readHeader(e, results[0], block)
		}
		return err
	})
	return h, err
}

// doubt excludes an endpoint with wrong logs and returns why its data is discarded. If this run or an earlier one may have
// counted its logs, doubt marks the store as incomplete.
func (x *Indexer) doubt(ctx context.Context, e *evm.Endpoint, fault string, block int64) error {
	e.Doubt()
	x.log.Warn("an execution client "+fault, "endpoint", e.Name(), "block", block)
	x.mu.Lock()
	counted, known := x.counted[e]
	suspect := counted || !known && x.resumed
	if suspect {
		x.counted[e] = false // they must not mark the store again after a rebuild
	}
	x.mu.Unlock()
	if suspect {
		x.suspectStore(ctx, "counted logs of an execution client that omits some", "endpoint", e.Name(), "block", block)
	}
	return fmt.Errorf("%w: %s %s in block %d", errInconsistent, e.Name(), fault, block)
}

// suspectStore logs why the store may lack logs, and marks it as incomplete.
func (x *Indexer) suspectStore(ctx context.Context, why string, attributes ...any) {
	x.log.Error(why, append(attributes, "error", ErrIncomplete)...)
	x.incomplete.Store(true)
	if err := x.markIncomplete(ctx); err != nil {
		x.log.Warn("failed to mark the store as incomplete, retrying", "error", err)
	}
}

// markIncomplete records in the store that logs may be missing, so that the mark survives a restart. After a failure the
// next call retries.
func (x *Indexer) markIncomplete(ctx context.Context) error {
	if !x.incomplete.Load() {
		return nil
	}
	if err := x.o.Store.MarkIncomplete(ctx); err != nil {
		return err
	}
	x.status.change(func(s *Status) { s.Cursor.Incomplete = true })
	x.incomplete.Store(false)
	return nil
}
