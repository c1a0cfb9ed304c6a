package metadata

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
)

// A Store keeps what was learned of each contract, under keys of the form meta/<chain>/<lower-case
// address>. It is called from several goroutines at once. It should keep a record for StaleIfError
// and a tenth at least: however old, it is better than {} in an outage.
type Store interface {
	// Load returns the records it has, until ctx ends. It never fails: a store that is down has
	// nothing.
	Load(ctx context.Context, keys []string) map[string]Record
	// Save keeps the records, each in place of an older one, if it can.
	Save(ctx context.Context, records map[string]Record)
}

// A Record is what was learned of one contract. It is not changed any more.
type Record struct {
	Body   []byte    // the description, a JSON object; empty: the provider has none
	ReadAt time.Time // when the provider said so
}

// json is the description to answer with.
func (r Record) json() json.RawMessage {
	if len(r.Body) == 0 {
		return json.RawMessage("{}")
	}
	return r.Body
}

// Lookup describes the contracts at the addresses, in any case. The answer has every address in
// lower case, with the documented collectionMetadata object or, where nothing is known, {}. The
// values are shared, and must not be changed.
//
// degraded says that the provider failed, was late or was not asked, and that some contract is
// therefore described by {} or by data older than StaleIfError: asking again soon may give more. A
// text that is no address does not degrade, nor does a nil Service.
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

// classify has the stale contracts refreshed and returns those to be read before they are served.
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
	s.metrics.contracts.WithLabelValues("hit").Add(float64(len(contracts) - len(aging) - len(due)))
	s.metrics.contracts.WithLabelValues("stale").Add(float64(len(aging)))
	s.metrics.contracts.WithLabelValues("miss").Add(float64(len(due)))
	return due
}

// await puts what the flights of the addresses bring into found. Only the first batch is waited
// for; the others come with the page if they are in time.
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

// freshness is what a record may be served for. It repeats the states of package
// cache, which no origin's package imports, with periods of an address's own.
type freshness int

const (
	fresh        freshness = iota // served
	stale                         // served while it is read again
	staleIfError                  // read again, served if that fails
	expired                       // read again; the page is degraded if that fails
)

// noRecord is how long it holds that the provider has no record.
const noRecord = 10 * time.Minute

// freshness judges the record of an address; the zero Record is expired.
func (o *Options) freshness(address string, r Record, now time.Time) freshness {
	passed, spread := float64(now.Sub(r.ReadAt)), spread(address)
	within := func(period time.Duration) bool { return passed <= float64(period)*spread }
	switch {
	case len(r.Body) == 0 && within(noRecord):
		return fresh
	case len(r.Body) == 0:
		return expired
	case within(o.Fresh):
		return fresh
	case within(o.Stale):
		return stale
	case within(o.StaleIfError):
		return staleIfError
	}
	return expired
}

// record is what to remember of a contract. A description replaces the one before. Without one,
// nil, that stays, and is fresh for as long as it would hold that there is none.
func (s *Service) record(c *contract, of *flight) Record {
	now := time.Now()
	switch {
	case c != nil:
		return Record{Body: s.describe(*c), ReadAt: now}
	case len(of.before.Body) == 0:
		return Record{ReadAt: now}
	}
	passed := time.Duration(float64(max(0, s.o.Fresh-noRecord)) * spread(of.address))
	return Record{Body: of.before.Body, ReadAt: now.Add(-passed)}
}

// spread is what the periods of an address are multiplied by, 0.9 to 1.1, in every replica.
func spread(address string) float64 {
	return 0.9 + 0.2*float64(crc32.ChecksumIEEE([]byte(address)))/(1<<32)
}

func (s *Service) key(address string) string {
	return "meta/" + s.o.Chain + "/" + address
}

// load returns the records of the addresses, by address.
func (s *Service) load(ctx context.Context, addresses []string) map[string]Record {
	if len(addresses) == 0 {
		return nil
	}
	keys := make([]string, len(addresses))
	for i, a := range addresses {
		keys[i] = s.key(a)
	}
	stored := s.o.Store.Load(ctx, keys)
	records := make(map[string]Record, len(stored))
	for i, a := range addresses {
		if r, ok := stored[keys[i]]; ok {
			records[a] = r
		}
	}
	return records
}

// save keeps what the flights have brought.
func (s *Service) save(ctx context.Context, flights []*flight) {
	records := make(map[string]Record, len(flights))
	for _, f := range flights {
		if f.ok {
			records[s.key(f.address)] = f.record
		}
	}
	if len(records) > 0 {
		s.o.Store.Save(ctx, records)
	}
}
