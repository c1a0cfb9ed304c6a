package rpc

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/record"
)

// atOnce is how many calls of a batch are answered at the same time: as many as a batch of CosmJS has.
const atOnce = 20

// The measured memory of a call that a batch has in addition to the first, and of the goroutine of one that is answered
// at the same time as others, in bytes.
const (
	callCost      = 1 << 10
	goroutineCost = 12 << 10
)

// run answers what is asked of the nodes, by one tip: at the same time, but for what has to
// be alone.
func (d *Handler) run(from *http.Request, rec *record.Record, asked []*asking) ([]answered, []error) {
	workers := min(len(asked), atOnce)
	release, err := d.reader.Stack.HoldStream(int64(workers-1) * goroutineCost)
	if err != nil {
		workers = 1 // one after another takes no more memory than one call
	} else {
		defer release()
	}
	ctx := d.reader.Deadline(from, rec)
	defer ctx.Release()
	all, errs, plans := make([]answered, len(asked)), make([]error, len(asked)), make([]*blocks.Query, len(asked))
	for i, k := range asked {
		if k != nil {
			plans[i] = k.plan()
		}
	}
	first := settling(plans)
	if first == nil {
		return all, errs
	}
	for _, p := range plans {
		if p != nil && p != first {
			first.With = append(first.With, p)
		}
	}
	tip, err := d.reader.AwaitBlock(ctx, from, rec, first)
	answer := func(i int) {
		if errs[i] = err; asked[i] != nil && err == nil {
			all[i], errs[i] = asked[i].answer(ctx, from, rec, plans[i], tip)
		}
	}
	for begin := 0; begin < len(asked); {
		end := begin + 1
		for end < len(asked) && !asked[begin].alone() && !asked[end].alone() {
			end++
		}
		together(begin, end, workers, answer)
		begin = end
	}
	rec.Blameless = rec.Blameless || len(all) > 0 && all[len(all)-1].blameless
	return all, errs
}

// alone says whether a call is answered when nothing else of its batch is; nil stands for one
// that has its answer.
func (k *asking) alone() bool { return k != nil && k.m.alone() }

// Alone says whether calls of a method are answered when nothing else of their connection is.
func (d *Handler) Alone(method string) bool {
	m := d.methods[method]
	return m != nil && m.alone()
}

// settling is the query that waits for the block that all have to see: one for the newest
// block, which is to be no earlier than what the client has seen, where there is one.
func settling(plans []*blocks.Query) *blocks.Query {
	var q *blocks.Query
	for _, p := range plans {
		if p != nil && (q == nil || p.Pinned == 0 && p.Kind.Class != blocks.Never) {
			q = p
		}
	}
	return q
}

// together does all from begin up to end, as many at the same time as there are workers. A panic of one is the
// caller's.
func together(begin, end, workers int, do func(i int)) {
	if end-begin == 1 || workers == 1 {
		for i := begin; i < end; i++ {
			do(i)
		}
		return
	}
	var works errgroup.Group
	works.SetLimit(workers)
	for i := begin; i < end; i++ {
		works.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("%v\n%s", p, debug.Stack())
				}
			}()
			do(i)
			return nil
		})
	}
	if err := works.Wait(); err != nil {
		panic(err)
	}
}
