package indexer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A claim is the hash of a block on which the counts depend.
type claim struct {
	block int64
	hash  ledger.Hash
}

// maxClaims is the maximum number of blocks with logs whose hashes are confirmed.
const maxClaims = 16

// claims returns the hashes of the store's block, the last block, and a block with logs of each call: an endpoint may answer each
// from another fork.
func (b *blocks) claims(cursor ledger.Cursor) []claim {
	var all []claim
	if cursor.Chain != 0 {
		all = append(all, claim{cursor.Block, cursor.Hash})
	}
	all = append(all, claim{b.to, b.last.Hash})
	most := len(all) + maxClaims
	for _, i := range rand.Perm(len(b.calls)) {
		if events := b.of(b.calls[i]); len(events) > 0 && len(all) < most {
			e := &events[rand.IntN(len(events))]
			all = append(all, claim{e.Block, e.BlockHash})
		}
	}
	return all
}

// confirm compares the hashes of blocks with another endpoint, and the logs unless all headers were read. If no other
// endpoint works, it reads the hashes from the source again if anything counts, because counts cannot be undone, and fails if a
// hash has changed. It compares several times while all endpoints are doubted, and for the first blocks of an empty store,
// because the cursor cannot step back from them. Other blocks that were read whole need no confirmation if nothing counts.
func (x *Indexer) confirm(ctx context.Context, cursor ledger.Cursor, b *blocks, counts bool) error {
	first := cursor.Chain == 0
	if b.whole && !counts && !first {
		return nil
	}
	claims, rounds := b.claims(cursor), 1
	if first || x.pool.Trusted() == 0 {
		rounds = maxContradictions
	}
	for ; rounds > 0; rounds-- {
		err := x.within(ctx, b.source, func(e *evm.Session) error {
			if e.Endpoint == b.source && !counts && !first {
				x.markUnverified()
				return nil
			}
			return x.confirmBy(ctx, e, b, claims)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxSmaller is how often a refused comparison is retried with a smaller request before blocks are applied without one.
const maxSmaller = 3

// confirmBy confirms with one endpoint. One request reads both the headers and the logs.
func (x *Indexer) confirmBy(ctx context.Context, e *evm.Session, b *blocks, claims []claim) error {
	if e.Endpoint.Single() {
		claims = claims[:min(len(claims), 3)] // each call is a request
	}
	var headers []evm.Call
	for _, c := range claims {
		headers = append(headers, getHeader(c.block))
	}
	for try := 0; ; try++ {
		samples, poll := x.samples(e, b, try), e.PollOnce
		if len(samples) == 0 {
			poll = e.Poll
		}
		calls := slices.Clone(headers)
		for _, s := range samples {
			calls = append(calls, x.getLogs(s))
		}
		_, answers, err := poll(ctx, b.to, calls...)
		results, err := evm.Results(answers, err)
		f, failed := errors.AsType[*evm.Failure](err)
		if tooMuch := failed && (f.Reason == evm.Refused || f.Reason == evm.Silent); tooMuch && len(samples) > 0 {
			x.refusals[e.Endpoint]++
			if f.Reason == evm.Refused {
				continue
			}
		}
		if err != nil {
			return err
		}
		if n := x.refusals[e.Endpoint]; n > 0 && rand.IntN(retryShare) == 0 {
			x.refusals[e.Endpoint] = n - 1
		}
		if err := x.checkClaims(e, b, claims, results); err != nil {
			return err
		}
		if len(samples) == 0 && (!b.whole || e.Endpoint == b.source) {
			x.markUnverified()
		}
		return x.compare(ctx, e, b, samples, results[len(headers):])
	}
}

func (x *Indexer) checkClaims(e *evm.Session, b *blocks, claims []claim, results []gjson.Result) error {
	for i, c := range claims {
		h, err := readHeader(e.Endpoint, results[i], c.block)
		f, failed := errors.AsType[*evm.Failure](err)
		switch {
		case failed && f.Reason == evm.Inconsistent && e.Endpoint == b.source:
			return fmt.Errorf("%w: %s: %s", errInconsistent, e.Endpoint.Name(), f.Error())
		case err != nil:
			return err
		case h.hash == c.hash:
		case c.block < b.from:
			return evm.Contradiction("block %d is %v, the store has %v", c.block, h.hash, c.hash).Doubting(getHeader(c.block))
		case e.Endpoint == b.source:
			e.Endpoint.Doubt()
			return fmt.Errorf("%w: %s: block %d is %v, and was %v before", errInconsistent, e.Endpoint.Name(), c.block, h.hash, c.hash)
		default:
			return fmt.Errorf("%w: block %d is %v at %s and %v at %s", errInconsistent, c.block, c.hash, b.source.Name(), h.hash, e.Endpoint.Name())
		}
	}
	return nil
}
