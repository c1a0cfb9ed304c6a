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

// While catching up, only some headers are read, and a client that leaves logs out shows only where
// another one has them: parts without any log are compared, and a tenth of each of the others.
const (
	heldParts   = 10 // parts without events that one request compares
	sampleShare = 10 // one in so many blocks of a part with events is compared
	maxCompared = 20 // calls for that in one request
	leastCalls  = 2
)

// held is how many parts without events are compared at once; 0 if there is nobody to compare with.
func (x *Indexer) held() int {
	if x.pool.Believed() > 1 {
		return heldParts
	}
	return 0
}

// A comparison is how much of an endpoint's logs is compared in one request. It finds out how much
// that may be, like package evm does, but within a bound of requests.
type comparison struct {
	size int64 // blocks in a call; 0: none are given
	most int   // calls
}

// comparisonOf returns what was found out about an endpoint. Only apply needs it.
func (x *Indexer) comparisonOf(e *evm.Endpoint) *comparison {
	c := x.comparisons[e]
	if c == nil {
		_, size := x.pool.Window()
		c = &comparison{size: max(size, 1), most: maxCompared}
		x.comparisons[e] = c
	}
	return c
}

// refused notes that so much was not given.
func (c *comparison) refused() {
	if c.most > leastCalls {
		c.most = max(c.most/4, leastCalls)
		return
	}
	c.size, c.most = c.size/4, maxCompared
}

// samples are the spans whose logs are compared with those that another endpoint sent. None are
// where all headers were read, or there is no other endpoint, or it has refused too often.
func (x *Indexer) samples(e *evm.Session, b *blocks, try int) (all []span) {
	c := x.comparisonOf(e.Endpoint)
	if b.whole || e.Endpoint == b.source || try > maxSmaller || c.size == 0 {
		return nil
	}
	for _, p := range b.pieces {
		s := p.span
		if !p.empty {
			shares := s.cut((s.blocks() + sampleShare - 1) / sampleShare)
			s = shares[rand.IntN(len(shares))]
		}
		all = append(all, s.cut(c.size)...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	most := c.most
	if e.Single() {
		most = 1 // each is a request
	}
	return all[:min(len(all), most)]
}

// unverified notes that blocks are taken over on the word of one endpoint.
func (x *Indexer) unverified(b *blocks) {
	if !b.whole {
		x.status.change(func(s *Status) { s.Unverified = true })
	}
}

// compare compares the logs of an endpoint with those that are to be counted.
func (x *Indexer) compare(ctx context.Context, e *evm.Session, b *blocks, samples []span, logs []gjson.Result) error {
	for i, s := range samples {
		theirs, err := x.readEvents(nil, logs[i], s)
		if err != nil {
			return err
		}
		ours := b.of(s)
		onlyOurs, onlyTheirs := without(ours, theirs), without(theirs, ours)
		switch {
		case len(onlyOurs)+len(onlyTheirs) == 0:
		case len(onlyOurs) > 0 && len(onlyTheirs) > 0:
			return fmt.Errorf("%w: the logs of blocks %d to %d differ at %s and %s", errInconsistent, s.from, s.to, b.source.Name(), e.Name())
		case len(onlyTheirs) > 0:
			return x.settle(ctx, e, b, b.source, onlyTheirs[0])
		default:
			return x.settle(ctx, e, b, e.Endpoint, onlyOurs[0])
		}
	}
	return nil
}

// without returns the events that are not among others, whatever the clients tell besides.
func without(events, others []Event) (rest []Event) {
	same := func(e Event) Event {
		e.Time, e.BlockHash = time.Time{}, ledger.Hash{}
		return e
	}
	among := make(map[Event]bool, len(others))
	for _, e := range others {
		among[same(e)] = true
	}
	for _, e := range events {
		if !among[same(e)] {
			rest = append(rest, e)
		}
	}
	return rest
}

// settle finds out which of two endpoints is wrong: the one that lacks a log, or the one that has it.
// If its own header does not rule the log out, it is the one that lacks it. The wrong one is doubted,
// and what came from it is thrown away.
func (x *Indexer) settle(ctx context.Context, e *evm.Session, b *blocks, lacking *evm.Endpoint, log Event) error {
	var h header
	err := x.pool.AskOne(lacking, func(s *evm.Session) error {
		_, answers, err := s.Poll(ctx, log.Block, getHeader(log.Block))
		results, err := evm.Results(answers, err)
		if err == nil {
			h, err = readHeader(lacking, results[0], log.Block)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: whether block %d has a log: %s: %s", errInconsistent, log.Block, lacking.Name(), err.Error())
	case log.BlockHash != (ledger.Hash{}) && log.BlockHash != h.hash:
		return fmt.Errorf("%w: block %d is %v at %s, and a log says %v", errInconsistent, log.Block, h.hash, lacking.Name(), log.BlockHash)
	}
	wrong, what := lacking, "left a log out"
	if h.bloom != nil && !x.o.Network.promises(h.bloom, log.Kind) {
		what = "made a log up"
		if wrong = b.source; lacking == b.source {
			wrong = e.Endpoint
		}
	}
	if err := x.doubt(ctx, wrong, what, log.Block); wrong == b.source {
		return err
	}
	return evm.Contradiction("it %s in block %d", what, log.Block)
}

// doubt excludes an endpoint whose logs were wrong and returns why its data is discarded. If logs of it
// were counted before, the store is marked as incomplete.
func (x *Indexer) doubt(ctx context.Context, e *evm.Endpoint, what string, block int64) error {
	e.Doubt()
	x.log.Warn("an execution client "+what, "endpoint", e.Name(), "block", block)
	x.mu.Lock()
	if x.counted[e] {
		x.log.Error("counted logs of an execution client that leaves some out", "endpoint", e.Name(), "block", block, "error", ErrIncomplete)
		delete(x.counted, e) // the mark covers them, also after a rebuild has cleared it
		x.incomplete = true
	}
	x.mu.Unlock()
	if err := x.markIncomplete(ctx); err != nil {
		x.log.Warn("store not marked as incomplete, trying again", "error", err)
	}
	return fmt.Errorf("%w: %s %s in block %d", errInconsistent, e.Name(), what, block)
}

// markIncomplete makes the store say that counted logs may be too few, so that a restart does not lose it. After
// a failure the next call tries again.
func (x *Indexer) markIncomplete(ctx context.Context) error {
	x.mu.Lock()
	pending := x.incomplete
	x.mu.Unlock()
	if !pending {
		return nil
	}
	if err := x.o.Store.MarkIncomplete(ctx); err != nil {
		return err
	}
	x.status.change(func(s *Status) { s.Cursor.Incomplete = true })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.incomplete = false
	return nil
}

// noteCounted notes whose logs were taken over, where not each block was compared.
func (x *Indexer) noteCounted(b *blocks) {
	if b.whole || len(b.events) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.counted[b.source] = true
}
