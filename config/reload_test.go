package config_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestReloadAppliesReloadableSettingsAndNamesOthers(t *testing.T) {
	running, next := config.Default(), config.Default()
	blocks := int64(7)
	next.Listen, next.Chain.ID = "127.0.0.1:1", "other"
	next.Log.Level, next.HTTP.Rate, next.Classes.Live.FreshBlocks, next.Classes.Negative = "debug", "5/s", blocks, time.Second
	next.Routes = map[string]*config.Route{"pool": {FreshBlocks: &blocks}}
	next.Collections.Keys = []string{digest}
	changed, restart := running.Reload(next)
	wantChanged := []string{"classes.live.fresh_blocks", "classes.negative", "routes", "collections.keys", "http.rate", "log.level"}
	expect.NoDiff(t, changed, wantChanged, "changed settings")
	expect.NoDiff(t, restart, []string{"listen", "chain.id"}, "settings that need a restart")
	next.Listen, next.Chain.ID = config.Default().Listen, config.Default().Chain.ID
	expect.NoDiff(t, running, next, "settings in force")
	if changed, restart := running.Reload(next); len(changed)+len(restart) > 0 {
		t.Errorf("second Reload = %v, %v; want no change", changed, restart)
	}
}

func TestAutoMemoryFollowsContainer(t *testing.T) {
	cfg, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_CACHE_MEMORY=auto"}})
	if err != nil || cfg.Cache.Memory != config.Auto || cfg.Cache.Memory.String() != "auto" {
		t.Errorf("cache.memory = %v, %v; want auto", cfg.Cache.Memory, err)
	}
	_, err = config.Load(config.Sources{Environ: []string{"TIPCACHE_CHAIN_IN_FLIGHT=auto"}})
	wantError(t, err, "chain.in_flight")
}
