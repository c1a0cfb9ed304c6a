package peers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
)

// lateness of the answers of one group at one server.
type lateness struct {
	answers, behind, oneBlock, failed int

	staleness []float64 // seconds, of all answers
}

// rows are a group's servers together.
func (f *freshnessRun) rows(ctx context.Context, first, last int64) ([][]string, error) {
	truth, err := clients.Learn(ctx, f.judge.RESTURL(), f.keys, first-20, f.chain.Height(), nil, 0)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, g := range f.groups {
		for _, s := range f.servers {
			l, err := f.judgeAll(s, g.keys, truth)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			asked, most := s.askedFor(g.keys, first, last)
			perPair := float64(asked) / float64(int64(len(g.keys))*(last-first))
			rows = append(rows, figures.Row(g.name, s.name, l.answers, perPair, most, figures.Percent(l.behind, l.answers), figures.Percent(l.oneBlock, l.answers),
				figures.Quantile(l.staleness, 0.99), l.failed))
		}
	}
	return rows, nil
}

// judgeAll holds a server's answers for the keys against the truth.
func (f *freshnessRun) judgeAll(s *freshServer, keys []string, truth *clients.Truth) (l lateness, err error) {
	for _, a := range s.history.Answers {
		if !slices.Contains(keys, a.Key) {
			continue
		}
		if !a.OK() {
			l.failed++
			continue
		}
		height, ok := truth.Until(a.Key, a.Hash, a.Tip+1) // the next block may have come on the way
		if !ok {
			return l, fmt.Errorf("%s: an answer that the node never gave", a.Key)
		}
		l.add(height, a, f.clock.At(height+1))
	}
	return l, nil
}

// add notes an answer that was the node's own until the block after height.
func (l *lateness) add(height int64, a clients.Answer, ended time.Time) {
	l.answers++
	stale := 0.0
	if height < a.Tip {
		l.behind++
		stale = a.Sent.Sub(ended).Seconds()
	}
	if height == a.Tip-1 {
		l.oneBlock++
	}
	l.staleness = append(l.staleness, stale)
}

// askedFor counts what the server asked its node about the keys at the blocks
// from first to before last, and the most of a key and block.
func (s *freshServer) askedFor(keys []string, first, last int64) (n, most int64) {
	for _, a := range s.node.Stats().Asked {
		if slices.Contains(keys, a.URI) && first <= a.Height && a.Height < last {
			n, most = n+a.Count, max(most, a.Count)
		}
	}
	return n, most
}
