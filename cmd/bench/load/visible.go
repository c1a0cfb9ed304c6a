package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	writeInterval = 2 * time.Second // between blocks
	written       = 1e16            // tokens, more than the chain itself adds
)

// A writer delegates, and reads its delegation until a response includes the write.
type writer struct {
	chain     *devnet.Devnet
	url       string // of the delegation
	delegator string
	height    int64 // of the last response

	blocks, seconds []float64 // from each receipt to the response
	err             error
}

// Visible measures how long after a receipt the first response includes the write. It fails if a response lacks a write
// that it should include, or a height falls.
func Visible(ctx context.Context, r *rig.Rig) {
	d := r.Chain(devnet.Options{Dialect: devnet.Story, Seed: 1, Interval: writeInterval})
	t := r.Replica(ctx, rig.Before(d))
	var all sync.WaitGroup
	writers := make([]*writer, rig.Sized(r, 100, 10))
	for i := range writers {
		who := d.Delegators()[i]
		writers[i] = &writer{chain: d, url: t.URL + "/staking/validators/" + devnet.PopularValidator + "/delegations/" + who, delegator: who}
		all.Go(func() {
			for range 2 {
				writers[i].err = errors.Join(writers[i].err, writers[i].write(ctx))
			}
		})
	}
	all.Wait()
	var blocks, seconds []float64
	for _, w := range writers {
		r.Broken(w.err)
		blocks, seconds = append(blocks, w.blocks...), append(seconds, w.seconds...)
	}
	r.Table(fmt.Sprintf("from the receipt of a write to the first response that includes it, blocks of %v", writeInterval), []string{"", "writes", "p50", "aim", "p99", "aim", "max"}, [][]string{
		figures.Row("blocks", len(blocks), figures.Median(blocks), 1, figures.Quantile(blocks, 0.99), 2, figures.Quantile(blocks, 1)),
		figures.Row("seconds", len(seconds), figures.Median(seconds), writeInterval.Seconds(), figures.Quantile(seconds, 0.99), 2*writeInterval.Seconds(), figures.Quantile(seconds, 1)),
	})
}

// write delegates at any time within a block, waits for the receipt, and reads the write.
func (w *writer) write(ctx context.Context) error {
	rig.Pause(ctx, rand.N(writeInterval))
	before, err := w.read(ctx)
	if err != nil {
		return err
	}
	block := w.chain.Delegate(w.delegator, written)
	for w.chain.EVM().Height() < block && rig.Pause(ctx, time.Millisecond) {
	}
	receipt, at := time.Now(), w.chain.Height()
	now, err := w.read(ctx, "X-Min-Evm-Block: "+strconv.FormatInt(block, 10))
	if err == nil && now < before+written {
		err = fmt.Errorf("the response to X-Min-Evm-Block %d lacks the write in that block", block)
	}
	if err != nil {
		return err
	}
	w.blocks, w.seconds = append(w.blocks, float64(w.height-at)), append(w.seconds, time.Since(receipt).Seconds())
	return nil
}

// read returns the tokens of the delegation.
func (w *writer) read(ctx context.Context, headers ...string) (tokens float64, err error) {
	response, err := rig.Request(ctx, w.url, "", headers...)
	if err != nil {
		return 0, err
	}
	height, err := strconv.ParseInt(response.Header.Get("X-Block-Height"), 10, 64)
	if err == nil && height < w.height {
		err = fmt.Errorf("height %d after %d", height, w.height)
	}
	w.height = height
	return gjson.GetBytes(response.Body, "msg.delegation_response.balance.amount").Float(), err
}
