package load

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// indexMoment is how far an indexer has come.
type indexMoment struct {
	at              time.Duration // since it began
	blocks, logs    int64         // taken over
	requests, calls int64         // that the endpoint got
	usage           rig.Usage
}

// settling is before the stretch: what the endpoint gives is found out in it.
func (x *indexRun) settling() time.Duration { return x.stretch / 4 }

// watch notes a moment each second until the process has ended or the stretch is
// over.
func (x *indexRun) watch(ctx context.Context, p *rig.Process, admin string) (whole bool, err error) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.Ended():
			x.finish(time.Since(began))
			return true, nil
		case <-tick.C:
			x.note(ctx, p, admin, time.Since(began))
			if x.stretch > 0 && time.Since(began) > x.settling()+x.stretch {
				return false, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// note takes a moment, unless the process has just ended.
func (x *indexRun) note(ctx context.Context, p *rig.Process, admin string, at time.Duration) {
	used, err := p.Usage()
	if err != nil {
		return
	}
	text, err := rig.Get(ctx, admin+"/metrics")
	if err != nil {
		return
	}
	m, stats := rig.ParseSamples(text), x.chain.EVM().Stats()
	moment := indexMoment{
		at: at, usage: used, requests: stats.Requests,
		blocks: int64(m.Sum("tipcache_indexer_cursor_block")), logs: int64(m.Sum("tipcache_indexer_logs_total")),
	}
	for _, n := range stats.Calls {
		moment.calls += n
	}
	x.moments = append(x.moments, moment)
}

// finish notes the end. The logs of the last blocks are as many as those of the
// blocks before: no one told of them.
func (x *indexRun) finish(at time.Duration) {
	end, height := x.last(), x.chain.EVM().Height()
	end.logs = end.logs * height / max(1, end.blocks)
	end.at, end.blocks = at, height
	x.moments = append(x.moments, end)
}

func (x *indexRun) last() indexMoment {
	if len(x.moments) == 0 {
		return indexMoment{}
	}
	return x.moments[len(x.moments)-1]
}

// steady is the moment after which the pace is that of the whole run.
func (x *indexRun) steady() indexMoment {
	if x.stretch > 0 {
		for _, m := range x.moments {
			if m.at >= x.settling() {
				return m
			}
		}
	}
	return indexMoment{}
}
