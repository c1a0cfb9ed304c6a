package main

import (
	"context"
	"os"
	"path/filepath"
)

// The metrics of what a tipcache holds.
const (
	cacheBytes   = "tipcache_cache_memory_bytes"
	cacheEntries = "tipcache_cache_memory_entries"
	goroutines   = "go_goroutines"
)

// metrics are those of the process at this moment.
func (t *tipcacheProc) metrics(ctx context.Context) (samples, error) {
	text, err := get(ctx, t.admin+"/metrics")
	return parseSamples(text), err
}

// config writes a configuration file for tipcache, and returns its path.
func (b *bench) config(name, text string) (path string, err error) {
	path = filepath.Join(b.dir, name+".yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}
