package metadata

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
)

// A Store stores the record of each contract of a chain by its lower-case address. It must be safe for concurrent use. It should
// keep a record for at least 33 days, because old metadata is better than {} in an outage.
type Store interface {
	// Load returns the records that it finds until ctx ends. A store that is down returns none.
	Load(ctx context.Context, addresses []string) map[string]Record
	// Save stores or replaces the records if it can.
	Save(ctx context.Context, records map[string]Record)
}

// A Record is the metadata of one contract. It is immutable.
type Record struct {
	Body   []byte    // a JSON object; empty if the provider has none
	ReadAt time.Time // when it was read from the provider
}

func (r Record) json() json.RawMessage {
	if len(r.Body) == 0 {
		return json.RawMessage("{}")
	}
	return r.Body
}

// Lookup returns descriptions of the contracts at addresses. The keys of found are the addresses in lower case. The values are
// the documented collectionMetadata objects, or {} if nothing is known. They are shared and must not be modified.
//
// degraded reports whether some contract has {} or data older than 30 days because the provider failed, was late or
// received no request, so a later Lookup may return more. Invalid addresses and a nil Service do not count as degraded.
func (s *Service) Lookup(ctx context.Context, addresses []string) (found map[string]json.RawMessage, degraded bool) {
	found = make(map[string]json.RawMessage, len(addresses))
	contracts := make([]string, 0, len(addresses))
	for _, a := range addresses {
		a = strings.ToLower(a)
		if _, twice := found[a]; !twice && collections.IsAddress(a) {
			contracts = append(contracts, a)
		}
		found[a] = Record{}.json()
	}
	if s == nil {
		return found, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Budget)
	defer cancel()
	records := s.o.Store.Load(ctx, contracts)
	for _, a := range contracts {
		found[a] = records[a].json()
	}
	due := s.classify(ctx, contracts, records)
	if degraded = s.await(ctx, due, records, found); degraded {
		s.metrics.degraded.Inc()
	}
	return found, degraded
}

// classify queues the refresh of stale contracts, and returns the contracts that must be read before they are served.
func (s *Service) classify(ctx context.Context, contracts []string, records map[string]Record) (due []string) {
	var aging []string
	now := time.Now()
	for _, a := range contracts {
		switch freshnessOf(a, records[a], now) {
		case fresh:
		case stale:
			aging = append(aging, a)
		default:
			due = append(due, a)
		}
	}
	s.queue.join(ctx, aging, background)
	s.metrics.contracts.WithLabelValues("hit").Add(float64(len(contracts) - len(aging) - len(due)))
	s.metrics.contracts.WithLabelValues("stale").Add(float64(len(aging)))
	s.metrics.contracts.WithLabelValues("miss").Add(float64(len(due)))
	return due
}

// await adds the results of the addresses' flights to found. It waits only for the first batch. Results of the others are added
// if they arrive in time.
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
		} else if freshnessOf(due[i], records[due[i]], now) == expired {
			degraded = true
		}
	}
	return degraded
}

// freshness is the freshness of a record. It repeats the states of package cache, which upstream packages do not import, with
// periods that differ by up to a tenth between addresses, so that contracts read together do not expire together.
type freshness int

const (
	fresh        freshness = iota // served
	stale                         // served while it is refreshed
	staleIfError                  // refreshed first, and served if that fails
	expired                       // refreshed first; the page is degraded if that fails
)

// The periods begin when a contract is read.
const (
	freshFor        = 24 * time.Hour
	staleFor        = 7 * freshFor
	staleIfErrorFor = 30 * freshFor
	noRecord        = 10 * time.Minute // how long the absence of a record is fresh
)

// maxAhead is how far the clock of another replica may be ahead. A record read later than that is expired.
const maxAhead = time.Minute

// freshnessOf returns the freshness of an address's record. The zero Record is expired.
func freshnessOf(address string, r Record, now time.Time) freshness {
	passed, spread := float64(now.Sub(r.ReadAt)), spread(address)
	within := func(period time.Duration) bool { return passed <= float64(period)*spread }
	switch {
	case passed < -float64(maxAhead):
		return expired
	case len(r.Body) == 0 && within(noRecord):
		return fresh
	case len(r.Body) == 0:
		return expired
	case within(freshFor):
		return fresh
	case within(staleFor):
		return stale
	case within(staleIfErrorFor):
		return staleIfError
	}
	return expired
}

// record returns the new record of a contract. If c is nil, it keeps an earlier description, which is then fresh for noRecord.
func (s *Service) record(c *Contract, f *flight) Record {
	now := time.Now()
	switch {
	case c != nil:
		return Record{Body: s.describe(*c), ReadAt: now}
	case len(f.before.Body) == 0:
		return Record{ReadAt: now}
	}
	passed := time.Duration(float64(freshFor-noRecord) * spread(f.address))
	return Record{Body: f.before.Body, ReadAt: now.Add(-passed)}
}

// spread returns the factor for the periods of an address, 0.9 to 1.1. It is the same in every replica.
func spread(address string) float64 {
	return 0.9 + 0.2*float64(crc32.ChecksumIEEE([]byte(address)))/(1<<32)
}

func (s *Service) save(ctx context.Context, flights []*flight) {
	records := make(map[string]Record, len(flights))
	for _, f := range flights {
		if f.ok {
			records[f.address] = f.record
		}
	}
	if len(records) > 0 {
		s.o.Store.Save(ctx, records)
	}
}
