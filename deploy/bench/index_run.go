package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
)

// indexRun is a `tipcache index` and what was measured of it.
type indexRun struct {
	indexCase
	url string // of the store
	evm evm

	moments []indexMoment // one a second
}

// indexMoment is how far an indexer has come.
type indexMoment struct {
	at              time.Duration // since it began
	blocks, logs    int64         // that it was given
	requests, calls int64
	usage           usage
}

// index runs `tipcache index` against the run's endpoint until it has the whole
// chain, or for the run's stretch.
func (b *bench) index(ctx context.Context, r *indexRun) error {
	if r.rate > 0 {
		r.evm.rate = &allowance{perSecond: r.rate}
	}
	stop, err := r.evm.serve()
	if err != nil {
		return err
	}
	defer stop()
	p, err := b.startWith(ctx, "index", []string{fmt.Sprintf("TIPCACHE_INDEX_AHEAD=%d", r.ahead)},
		b.bin, "index", "--evm", r.evm.url, "--store", r.url, "--from", "1")
	if err != nil {
		return err
	}
	defer p.stop()
	if whole, err := r.watch(ctx, p); err != nil || !whole {
		return err
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("it ended with %d%s", code, p.lastWords())
	}
	return r.check(ctx)
}

// settling is before the stretch: what the endpoint gives is found out in it.
func (r *indexRun) settling() time.Duration { return r.stretch / 4 }

// watch notes a moment each second until the process has ended or the stretch is
// over.
func (r *indexRun) watch(ctx context.Context, p *process) (whole bool, err error) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			r.note(time.Since(began), r.last().usage)
			return true, nil
		case <-tick.C:
			u, err := p.usage()
			if err != nil {
				continue // it has just ended
			}
			r.note(time.Since(began), u)
			if r.stretch > 0 && time.Since(began) > r.settling()+r.stretch {
				return false, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (r *indexRun) note(at time.Duration, u usage) {
	e := &r.evm
	r.moments = append(r.moments, indexMoment{
		at: at, usage: u,
		blocks: e.blocks.Load(), logs: e.given.Load(), requests: e.requests.Load(), calls: e.calls.Load(),
	})
}

func (r *indexRun) last() indexMoment {
	if len(r.moments) == 0 {
		return indexMoment{}
	}
	return r.moments[len(r.moments)-1]
}

// steady is the moment after which the pace is that of the whole run.
func (r *indexRun) steady() indexMoment {
	if r.stretch > 0 {
		for _, m := range r.moments {
			if m.at >= r.settling() {
				return m
			}
		}
	}
	return indexMoment{}
}

// check reads the store: every registration is an asset.
func (r *indexRun) check(ctx context.Context) error {
	s, err := collections.Open(ctx, r.url, collections.Options{})
	if err != nil {
		return err
	}
	var assets, want int64
	for q := (collections.Query{Limit: collections.MaxLimit}); ; q.Offset += q.Limit {
		page, err := s.List(ctx, q)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		for _, c := range page.Items {
			assets += c.AssetCount
		}
		if len(page.Items) < q.Limit {
			break
		}
	}
	want = r.evm.logs/logCycle*registrations + min(r.evm.logs%logCycle, registrations)
	if assets != want {
		err = fmt.Errorf("the store holds %d assets, the logs register %d", assets, want)
	}
	return errors.Join(err, s.Close())
}
