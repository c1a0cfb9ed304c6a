package metadata

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Lookup describes the contracts at the addresses, in any case. The answer has
// every address in lower case, with the documented collectionMetadata object
// or, where nothing is known, {}. The values must not be changed: they are shared.
//
// degraded says that the provider failed, was late or was not asked, and that
// some contract is therefore described by {} or by data older than
// StaleIfError: asking again soon may give more. A text that is no address is
// {} without degrading, and so is everything a nil Service is asked for.
func (s *Service) Lookup(ctx context.Context, addresses []string) (found map[string]json.RawMessage, degraded bool) {
	found = make(map[string]json.RawMessage, len(addresses))
	contracts := make([]string, 0, len(addresses))
	for _, a := range addresses {
		a = strings.ToLower(a)
		if _, twice := found[a]; !twice && isAddress(a) {
			contracts = append(contracts, a)
		}
		found[a] = Record{}.json()
	}
	if s == nil {
		return found, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Budget)
	defer cancel()
	records := s.load(ctx, contracts)
	for _, a := range contracts {
		found[a] = records[a].json()
	}
	due := s.classify(ctx, contracts, records)
	if degraded = s.await(ctx, due, records, found); degraded {
		s.metrics.degraded.Inc()
	}
	return found, degraded
}

// classify has the stale contracts refreshed and returns the contracts that must be read
// before they may be served.
func (s *Service) classify(ctx context.Context, contracts []string, records map[string]Record) (due []string) {
	var aging []string
	now := time.Now()
	for _, a := range contracts {
		switch s.o.freshness(a, records[a], now) {
		case fresh:
		case stale:
			aging = append(aging, a)
		default:
			due = append(due, a)
		}
	}
	s.queue.join(ctx, aging, background)
	s.metrics.count(len(contracts)-len(aging)-len(due), len(aging), len(due))
	return due
}

// await puts what the flights of the addresses bring into found. Of a page
// with more addresses due than fit in a batch, the first batch is waited for;
// the others are queued behind, and come with the page if they are in time.
func (s *Service) await(ctx context.Context, due []string, records map[string]Record, found map[string]json.RawMessage) (degraded bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := min(len(due), s.o.Batch)
	flights := s.queue.join(ctx, due[:first], foreground)
	flights = append(flights, s.queue.join(ctx, due[first:], background)...)
	now := time.Now()
	for i, f := range flights {
		if i == first {
			cancel()
		}
		if r, ok := f.wait(ctx); ok {
			found[due[i]] = r.json()
		} else if s.o.freshness(due[i], records[due[i]], now) == expired {
			degraded = true
		}
	}
	return degraded
}

// isAddress reports whether the text is 0x and 40 lower-case hex digits.
func isAddress(text string) bool {
	digits, ok := strings.CutPrefix(text, "0x")
	return ok && len(digits) == 40 && strings.Trim(digits, "0123456789abcdef") == ""
}
