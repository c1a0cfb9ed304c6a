package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/metadata"
)

// metadataKeep is how long the shared store keeps a record: longer than the
// provider's package would serve one while the provider fails.
const metadataKeep = 40 * 24 * time.Hour

// MetadataStore keeps the records of the metadata provider in the cache,
// where every replica finds them.
func MetadataStore(c *cache.Cache) metadata.Store { return metadataStore{c} }

type metadataStore struct{ cache *cache.Cache }

// Load returns the records at hand.
func (s metadataStore) Load(ctx context.Context, keys []string) map[string]metadata.Record {
	entries := s.cache.Load(ctx, keys)
	records := make(map[string]metadata.Record, len(entries))
	for key, e := range entries {
		records[key] = metadata.Record{Body: e.Body, ReadAt: e.ReadAt}
	}
	return records
}

// Save keeps the records.
func (s metadataStore) Save(ctx context.Context, records map[string]metadata.Record) {
	entries := make(map[string]*cache.Entry, len(records))
	for key, r := range records {
		entries[key] = &cache.Entry{Content: cache.NewContent(http.StatusOK, jsonType, "", r.Body, 0), ReadAt: r.ReadAt}
	}
	s.cache.Save(ctx, entries, metadataKeep)
}
