package config_test

import (
	"maps"
	"net/netip"
	"reflect"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// The reference shows config.Default, and serve runs with options from it. Both must equal the packages' own defaults.
func TestReferenceShowsDefaultsOfServe(t *testing.T) {
	cfg := config.Default()
	cfg.Cache.Memory = config.Bytes(cache.Options{}.WithDefaults().MemoryBytes) // otherwise it depends on the machine
	cfg.Chain.Dialect = string(node.Cosmos)
	for name, options := range map[string]struct{ own, configured any }{
		"cache":       {cache.Options{}.WithDefaults(), cfg.CacheOptions().WithDefaults()},
		"node":        {node.Options{Dialect: node.Cosmos}.WithDefaults(), cfg.NodeOptions().WithDefaults()},
		"indexer":     {indexer.Options{}.WithDefaults(), cfg.IndexOptions().WithDefaults()},
		"web":         {web.Options{}.WithDefaults(), cfg.ProxyOptions().Web.WithDefaults()},
		"classes":     {blocks.Classes{}.WithDefaults(), cfg.ProxyOptions().Chain.Classes.WithDefaults()},
		"story":       {story.Options{}.WithDefaults(), cfg.ProxyOptions().Story.WithDefaults()},
		"posts":       {blocks.Posts{}.WithDefaults(), cfg.ProxyOptions().Posts.WithDefaults()},
		"collections": {listing.Options{}.WithDefaults(), cfg.ProxyOptions().Collections.WithDefaults()},
		"streams":     {stream.Options{}.WithDefaults(), withoutWrite(cfg.ProxyOptions().Streams).WithDefaults()},
	} {
		expect.NoDiff(t, settings(options.configured), settings(options.own), "%s in the configuration", name)
	}
}

// Before, bodies of one client could use nearly all of a small memory, and others got no stream.
func TestBodiesOfOneClientLeaveMemoryForOthers(t *testing.T) {
	for memory, want := range map[int64]int{32 << 20: 6 << 20, 256 << 20: 16 << 20} {
		c := expect.Value(cache.New(cache.Options{MemoryBytes: memory}))(t)
		defer c.Close()
		s := web.New(config.Default().ProxyOptions().Web, c)
		bodiesOf := func(address string) (held int) {
			for ; held < int(memory); held += 64 << 10 {
				if s.HoldBody(&limits.Client{Address: netip.MustParseAddr(address)}).Take(64<<10) != nil {
					break
				}
			}
			return held
		}
		if held := bodiesOf("192.0.2.1"); held < 4<<20 || held > want {
			t.Errorf("cache.memory of %d: bodies of the first client = %d bytes, want 4 MiB to %d", memory, held, want)
		}
		if held := bodiesOf("192.0.2.2"); held < 2<<20 {
			t.Errorf("cache.memory of %d: bodies of the second client = %d bytes, want at least 2 MiB", memory, held)
		}
		if _, err := s.HoldStream(4 << 20); err != nil {
			t.Errorf("cache.memory of %d: HoldStream = %v, want nil", memory, err)
		}
	}
}

// withoutWrite clears Write, which http.request sets.
func withoutWrite(o stream.Options) stream.Options {
	o.Write = 0
	return o
}

// settings returns the fields that have a default and can be compared.
func settings(options any) map[string]any {
	set := map[string]any{}
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		if !field.CanInterface() {
			continue // set only by tests
		}
		if v.Type().Field(i).Anonymous {
			maps.Copy(set, settings(field.Interface()))
			continue
		}
		switch field.Kind() {
		case reflect.Func, reflect.Pointer, reflect.Interface:
			continue
		}
		if unset := field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0 || field.Kind() == reflect.Map && field.Len() == 0; !unset {
			set[name] = field.Interface()
		}
	}
	for _, own := range []string{"Endpoints", "Network", "Chain", "SharedLimits", "LargestBody"} { // no defaults of a package
		delete(set, own)
	}
	return set
}
