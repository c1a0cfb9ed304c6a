package main

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// createKey returns a new key and the line of the configuration that admits it.
func createKey(t *testing.T, name string) (key, line string) {
	t.Helper()
	out := expect.Value(runCommand(t, "key", "new", name))(t)
	words := strings.Fields(out)
	if len(words) != 4 || words[0] != "key" || words[2] != "line" {
		t.Fatalf("key new = %q, want a key and a line", out)
	}
	return words[1], words[3]
}

func TestNewKeyGivesAccessOnceItsLineIsConfigured(t *testing.T) {
	t.Parallel()
	key, line := createKey(t, "web")
	another, _ := createKey(t, "web")
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) {
		c.Collections.Keys, c.Chain.Auth = []string{line + ":2/h"}, "keys"
	})
	for _, tt := range []struct {
		key    string
		status int
	}{{another, 401}, {"", 401}, {key, 200}, {key, 200}, {key, 429}} {
		r.get(r.base+"/staking/params", "X-Api-Key", tt.key).expectStatus(t, tt.status)
	}
	r.key = key
	got := r.list(`{}`) // the APIs share the rate
	got.expectStatus(t, 429, `"status":429`)
	if got.header.Get("Retry-After") == "" {
		t.Error("Retry-After is missing")
	}
}

func TestKeyNeedsName(t *testing.T) {
	for _, args := range [][]string{{"key"}, {"key", ""}, {"key", "new"}, {"key", "new", ""}, {"key", "new", "a:b"}, {"key", "new", "a", "b"}, {"key", "old", "a"}} {
		if out, err := runCommand(t, args...); err == nil || out != "" {
			t.Errorf("%v = %q, %v; want an error alone", args, out, err)
		}
	}
}

func TestConfigPrintsReference(t *testing.T) {
	expect.Equal(t, expect.Value(runCommand(t, "config"))(t), config.Reference(), "output of config")
}
