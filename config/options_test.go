package config_test

import (
	"maps"
	"reflect"
	"testing"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
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
		"redis":       {redis.Options{}.WithDefaults(), cfg.SharedOptions().WithDefaults()},
		"node":        {node.Options{Dialect: node.Cosmos}.WithDefaults(), cfg.NodeOptions().WithDefaults()},
		"indexer":     {indexer.Options{}.WithDefaults(), cfg.IndexOptions().WithDefaults()},
		"metadata":    {metadata.Options{}.WithDefaults(), cfg.MetadataOptions().WithDefaults()},
		"web":         {web.Options{}.WithDefaults(), cfg.ProxyOptions().Web.WithDefaults()},
		"chain":       {story.Options{Classes: blocks.DefaultClasses()}.WithDefaults(), cfg.ProxyOptions().Chain.WithDefaults()},
		"posts":       {blocks.Posts{}.WithDefaults(), cfg.ProxyOptions().Posts.WithDefaults()},
		"collections": {listing.Options{}.WithDefaults(), cfg.ProxyOptions().Collections.WithDefaults()},
		"store":       {collections.Options{}.WithDefaults(), cfg.StoreOptions().WithDefaults()},
		"streams":     {stream.Options{}.WithDefaults(), withoutWrite(cfg.ProxyOptions().Streams).WithDefaults()},
	} {
		expect.NoDiff(t, settings(options.configured), settings(options.own), "%s in the configuration", name)
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
	for _, own := range []string{"Endpoints", "Network", "Chain", "SharedLimits"} { // no defaults of a package
		delete(set, own)
	}
	return set
}
