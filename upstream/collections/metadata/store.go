package metadata

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"time"
)

// A Store keeps what was learned of each contract, under keys of the form
// meta/<chain>/<lower-case address>. It is called from several goroutines at
// once. It should keep a record for at least StaleIfError and a tenth: as long
// as it has one, however old, an outage is not met with {}.
type Store interface {
	// Load returns the records it has; the others are absent. It ends with its
	// context and never fails: a store that is down has nothing.
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

// record is what to remember of a contract from now on. A description replaces the
// one that was known. Where there is none, nil, the one that was known stays, and is
// fresh for as long as it would hold that the provider has none.
func (s *Service) record(c *contract, address string, before Record) Record {
	now := time.Now()
	switch {
	case c != nil:
		return Record{Body: s.describe(*c), ReadAt: now}
	case len(before.Body) == 0:
		return Record{ReadAt: now}
	}
	passed := time.Duration(float64(max(0, s.o.Fresh-noRecord)) * spread(address))
	return Record{Body: before.Body, ReadAt: now.Add(-passed)}
}

// spread is what the periods of an address are multiplied by, from 0.9 to 1.1:
// the same in every replica, and another for every address.
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

// save keeps the records, given by address.
func (s *Service) save(ctx context.Context, records map[string]Record) {
	if len(records) == 0 {
		return
	}
	stored := make(map[string]Record, len(records))
	for a, r := range records {
		stored[s.key(a)] = r
	}
	s.o.Store.Save(ctx, stored)
}
