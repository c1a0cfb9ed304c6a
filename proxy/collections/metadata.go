package collections

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
)

// metadataKeep is how long the shared store keeps a record: longer than the
// provider's package would serve one while the provider fails.
const metadataKeep = 40 * 24 * time.Hour

// metadataCache is what keeps the records of the metadata provider; *cache.Cache
// does.
type metadataCache interface {
	Load(ctx context.Context, keys []string) map[string]*cache.Entry
	Save(ctx context.Context, entries map[string]*cache.Entry, keep time.Duration)
}

// MetadataStore keeps the records of the metadata provider in the cache,
// where every replica finds them.
func MetadataStore(c metadataCache) metadata.Store { return metadataStore{c} }

type metadataStore struct{ cache metadataCache }

// Load returns those records that the cache has.
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
		entries[key] = &cache.Entry{Content: cache.NewContent(http.StatusOK, web.JSON, "", r.Body, 0), ReadAt: r.ReadAt}
	}
	s.cache.Save(ctx, entries, metadataKeep)
}
