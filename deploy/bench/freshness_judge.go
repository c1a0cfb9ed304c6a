package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// truth is what the node itself answers a key with, by block.
type truth struct {
	first  int64    // height of the first
	hashes []uint64 // of the bodies
}

// learn asks the judge for all blocks at which a key may have been answered.
func (f *freshnessRun) learn(ctx context.Context, key string, first, last int64) (truth, error) {
	t := truth{first: first}
	for h := first; h <= last; h++ {
		body, err := bodyOf(ctx, http.DefaultClient, f.judge.RESTURL()+key, strconv.FormatInt(h, 10))
		if err != nil {
			return t, fmt.Errorf("the judge on %s at %d: %w", key, h, err)
		}
		t.hashes = append(t.hashes, maphash.Bytes(bodySeed, body))
	}
	return t, nil
}

// until is the last block at which an answer was the node's own, for one asked
// for when tip was the newest: tip or more when it was not behind; ok is false
// for a body that the node never gave.
func (t truth) until(hash uint64, tip int64) (height int64, ok bool) {
	for h := min(tip+1, t.first+int64(len(t.hashes))-1); h >= t.first; h-- { // tip+1 may have come on the way
		if t.hashes[h-t.first] == hash {
			return h, true
		}
	}
	return 0, false
}

// lateness of the answers of one group at one server.
type lateness struct {
	answers, behind, oneBlock int
	staleness                 []float64 // seconds, of all answers
}

// rows are a group's servers together.
func (f *freshnessRun) rows(ctx context.Context, first, last int64) ([][]string, error) {
	var rows [][]string
	for _, g := range f.groups {
		truths := map[string]truth{}
		for _, key := range g.keys {
			t, err := f.learn(ctx, key, max(1, first-20), f.chain.Height())
			if err != nil {
				return nil, err
			}
			truths[key] = t
		}
		for _, s := range f.servers {
			l, err := f.judgeAll(s, truths)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			asked, most := s.askedFor(g.keys, first, last)
			perPair := float64(asked) / float64(int64(len(g.keys))*(last-first))
			rows = append(rows, []string{
				g.name, s.name, strconv.Itoa(l.answers), decimal(perPair), strconv.FormatInt(most, 10), l.percent(l.behind), l.percent(l.oneBlock),
				decimal(quantile(l.staleness, 0.99)), strconv.Itoa(s.failures(g.keys)),
			})
		}
	}
	return rows, nil
}

// judgeAll holds a server's answers for the keys against the truth.
func (f *freshnessRun) judgeAll(s *freshServer, truths map[string]truth) (l lateness, err error) {
	for _, seen := range s.seen.all {
		t, ok := truths[seen.key]
		if !ok {
			continue
		}
		height, ok := t.until(seen.hash, seen.tip)
		if !ok {
			return l, fmt.Errorf("%s: an answer that the node never gave", seen.key)
		}
		l.add(height, seen, f.clock.at(height+1))
	}
	return l, nil
}

// add notes an answer that was the node's own until the block after height.
func (l *lateness) add(height int64, seen sighting, ended time.Time) {
	l.answers++
	stale := 0.0
	if height < seen.tip {
		l.behind++
		stale = seen.sent.Sub(ended).Seconds()
	}
	if height == seen.tip-1 {
		l.oneBlock++
	}
	l.staleness = append(l.staleness, stale)
}

func (l *lateness) percent(n int) string {
	return decimal(100 * float64(n) / float64(max(1, l.answers)))
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

func (s *freshServer) failures(keys []string) (n int) {
	for _, key := range keys {
		n += s.seen.failed[key]
	}
	return n
}
