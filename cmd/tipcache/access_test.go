package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// keyFrom runs the command and returns what it prints.
func keyFrom(t *testing.T, name string) (key, line string) {
	t.Helper()
	var out bytes.Buffer
	expect.NoError(t, run(t.Context(), []string{"key", "new", name}, streams{&out, io.Discard}))
	printed := strings.Fields(out.String())
	if len(printed) != 4 || printed[0] != "key" || printed[2] != "line" {
		t.Fatalf("printed %q", out.String())
	}
	return printed[1], printed[3]
}

func TestNewKeyGivesAccessOnceItsLineIsConfigured(t *testing.T) {
	t.Parallel()
	key, line := keyFrom(t, "web")
	another, _ := keyFrom(t, "web")
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) {
		c.Collections.Keys, c.Chain.Auth = []string{line + ":2/h"}, "keys"
	})
	for _, tt := range []struct {
		key    string
		status int
	}{{another, 401}, {"", 401}, {key, 200}, {key, 200}, {key, 429}} {
		r.get(r.base+"/staking/params", "X-Api-Key", tt.key).wants(t, tt.status)
	}
	r.key = key
	if got := r.list(`{}`); got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"status":429`) {
		t.Errorf("the rate is one for both interfaces: %d %s", got.status, got.body)
	}
}

func TestKeyNeedsName(t *testing.T) {
	for _, args := range [][]string{{"key"}, {"key", ""}, {"key", "new"}, {"key", "new", ""}, {"key", "new", "a:b"}, {"key", "new", "a", "b"}, {"key", "old", "a"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, streams{&out, io.Discard}); err == nil || out.Len() > 0 {
			t.Errorf("%v: %v, printed %q", args, err, out.String())
		}
	}
}

func TestReplicasShareLimitInRedis(t *testing.T) {
	t.Parallel()
	address, _ := realRedis(t)
	d := newDevnet(t, devnet.Options{})
	limited := func(c *config.Config) { c.Redis.URL, c.Collections.Rate = "redis://"+address, "20/h" }
	a, b := startRunning(t, d, limited), startRunning(t, d, limited)
	allowed := 0
	for range 15 {
		for _, r := range []*running{a, b} {
			if r.list(`{}`).status == http.StatusOK {
				allowed++
			}
		}
	}
	expect.Equal(t, allowed, 20, "allowed requests")
}

func TestConfigPrintsReference(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"config"}, streams{&out, io.Discard}); err != nil || out.String() != config.Reference() {
		t.Errorf("%v, %.200q", err, out.String())
	}
}
