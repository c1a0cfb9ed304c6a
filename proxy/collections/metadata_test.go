package collections_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestLoadReturnsSavedMetadataRecords(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	store := collections.MetadataStore{Cache: c, Chain: "story"}
	records := map[string]metadata.Record{
		"0x1": {Body: []byte(`{"name":"World of Women"}`), ReadAt: time.Now().Add(-30 * 24 * time.Hour)},
		"0x2": {ReadAt: time.Now()}, // the provider has no record
	}
	store.Save(t.Context(), records)
	got := store.Load(t.Context(), []string{"0x1", "0x2", "0x3"})
	expect.NoDiff(t, got, records, "records")
}
