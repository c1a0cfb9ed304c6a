package indexer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A claim is the hash of a block that what is to be counted rests on.
type claim struct {
	block int64
	hash  ledger.Hash
}

// maxClaims is how many blocks with logs are asked about at the most.
const maxClaims = 4

// claims are the store's block, the last one, and some of those with logs.
func (b *blocks) claims(cursor ledger.Cursor) []claim {
	var all []claim
	if cursor.Chain != 0 {
		all = append(all, claim{cursor.Block, cursor.Hash})
	}
	all = append(all, claim{b.to, b.last.Hash})
	seen := map[int64]bool{b.to: true}
	for range min(maxClaims, len(b.events)) {
		e := &b.events[rand.IntN(len(b.events))]
		if !seen[e.Block] && e.BlockHash != (ledger.Hash{}) {
			seen[e.Block], all = true, append(all, claim{e.Block, e.BlockHash})
		}
	}
	return all
}

// confirm has another endpoint, where there is one, say the hashes of blocks again, and compares
// its logs, where the blooms of headers do not vouch for all of them. Where something counts, the
// source says them again if there is no other: there is no way back over that. A part whose source
// tells another hash then is not taken over. While there are doubts of all endpoints, one answer is
// not enough. Single blocks in which nothing counts are not confirmed.
func (x *Indexer) confirm(ctx context.Context, cursor ledger.Cursor, b *blocks, counts bool) error {
	if b.whole && !counts && cursor.Chain != 0 {
		return nil
	}
	claims, rounds := b.claims(cursor), 1
	if x.pool.Believed() == 0 {
		rounds = maxContradictions
	}
	for ; rounds > 0; rounds-- {
		err := x.within(ctx, b.source, func(e *evm.Session) error {
			if e.Endpoint == b.source && !counts {
				x.unverified(b)
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

// maxSmaller is how often a comparison is tried again with less, before a part is taken over
// without one.
const maxSmaller = 3

// confirmBy is confirm by one endpoint. A request has both the headers and the logs.
func (x *Indexer) confirmBy(ctx context.Context, e *evm.Session, b *blocks, claims []claim) error {
	if e.Single() {
		claims = claims[:min(len(claims), 3)] // each is a request
	}
	var headers []evm.Call
	for _, c := range claims {
		headers = append(headers, getHeader(c.block))
	}
	for try := 0; ; try++ {
		samples, ask := x.samples(e, b, try), e.PollOnce
		if len(samples) == 0 {
			ask = e.Poll
		}
		calls := headers
		for _, s := range samples {
			calls = append(calls[:len(calls):len(calls)], x.getLogs(s))
		}
		_, answers, err := ask(ctx, b.to, calls...)
		results, err := evm.Results(answers, err)
		if f, failed := errors.AsType[*evm.Failure](err); failed && len(samples) > 0 && (f.Reason == evm.Refused || f.Reason == evm.Silent) {
			if x.comparisonOf(e.Endpoint).refused(); f.Reason == evm.Refused {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := x.agree(e, b, claims, results); err != nil {
			return err
		}
		if len(samples) == 0 {
			x.unverified(b)
		}
		return x.compare(ctx, e, b, samples, results[len(headers):])
	}
}

// agree checks that headers bear out the claims.
func (x *Indexer) agree(e *evm.Session, b *blocks, claims []claim, results []gjson.Result) error {
	for i, c := range claims {
		h, err := readHeader(e.Endpoint, results[i], c.block)
		f, failed := errors.AsType[*evm.Failure](err)
		switch {
		case failed && f.Reason == evm.Inconsistent && e.Endpoint == b.source:
			return fmt.Errorf("%w: %s: %s", errInconsistent, e.Name(), f.Error())
		case err != nil:
			return err
		case h.hash == c.hash:
		case c.block < b.from:
			return evm.Contradiction("block %d is %v, the store has %v", c.block, h.hash, c.hash).Doubting(getHeader(c.block))
		case e.Endpoint == b.source:
			e.Doubt()
			return fmt.Errorf("%w: %s: block %d is %v, and was %v before", errInconsistent, e.Name(), c.block, h.hash, c.hash)
		default:
			return fmt.Errorf("%w: block %d is %v at %s and %v at %s", errInconsistent, c.block, c.hash, b.source.Name(), h.hash, e.Name())
		}
	}
	return nil
}
