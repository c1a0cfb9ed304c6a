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
	// Save stores or replaces the records if it can, within a timeout of its own.
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
	records, now := s.o.Store.Load(ctx, contracts), time.Now()
	flights, refreshed := map[string]*flight{}, 0
	for _, a := range contracts {
		found[a] = records[a].json()
		switch freshnessOf(a, records[a], now) {
		case fresh:
		case stale:
			s.join(ctx, a, records[a], s.refreshes)
			refreshed++
		default:
			flights[a] = s.join(ctx, a, records[a], s.awaited)
		}
	}
	s.metrics.contracts.WithLabelValues("hit").Add(float64(len(contracts) - refreshed - len(flights)))
	s.metrics.contracts.WithLabelValues("stale").Add(float64(refreshed))
	s.metrics.contracts.WithLabelValues("miss").Add(float64(len(flights)))
	for a, f := range flights {
		if r := f.wait(ctx); r != nil {
			found[a] = r.json()
		} else if freshnessOf(a, records[a], now) == expired {
			degraded = true
		}
	}
	if degraded {
		s.metrics.degraded.Inc()
	}
	return found, degraded
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
	age := time.Duration(float64(now.Sub(r.ReadAt)) / spread(address))
	switch {
	case age < -maxAhead, len(r.Body) == 0 && age > noRecord:
		return expired
	case len(r.Body) == 0 || age <= freshFor:
		return fresh
	case age <= staleFor:
		return stale
	case age <= staleIfErrorFor:
		return staleIfError
	}
	return expired
}

// spread returns the factor for the periods of an address, 0.9 to 1.1. It is the same in every replica.
func spread(address string) float64 {
	return 0.9 + 0.2*float64(crc32.ChecksumIEEE([]byte(address)))/(1<<32)
}
