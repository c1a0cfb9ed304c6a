package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
)

func TestReloadAppliesReloadableSettingsAndNamesOthers(t *testing.T) {
	running, next := config.Default(), config.Default()
	blocks := int64(7)
	next.Listen, next.Chain.ID = "127.0.0.1:1", "other"
	next.Log.Level, next.HTTP.Rate, next.Classes.Live.FreshBlocks, next.Classes.Negative = "debug", "5/s", &blocks, time.Second
	next.Routes = map[string]*config.Class{"pool": {FreshBlocks: &blocks}}
	next.Collections.Keys = []string{digest}
	changed, restart := running.Reload(next)
	wantChanged := []string{"classes.live.fresh_blocks", "classes.negative", "routes", "collections.keys", "http.rate", "log.level"}
	if diff := cmp.Diff(wantChanged, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"listen", "chain.id"}, restart); diff != "" {
		t.Errorf("needing a restart (-want +got):\n%s", diff)
	}
	next.Listen, next.Chain.ID = config.Default().Listen, config.Default().Chain.ID
	if diff := cmp.Diff(next, running); diff != "" {
		t.Errorf("in force (-want +got):\n%s", diff)
	}
	if changed, restart := running.Reload(next); len(changed)+len(restart) > 0 {
		t.Errorf("the same again changed %v, and wants a restart for %v", changed, restart)
	}
}

func TestAutoMemoryFollowsContainer(t *testing.T) {
	cfg, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_CACHE_MEMORY=auto"}})
	if err != nil || cfg.Cache.Memory != config.Auto || cfg.Cache.Memory.String() != "auto" {
		t.Errorf("%v, %v", cfg.Cache.Memory, err)
	}
	if _, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_CHAIN_IN_FLIGHT=auto"}}); err == nil || !strings.Contains(err.Error(), "chain.in_flight") {
		t.Errorf("of others it is not: %v", err)
	}
}
