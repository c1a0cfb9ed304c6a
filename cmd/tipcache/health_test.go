package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestHealthExitStatusFollowsReadiness(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	ready := startRunning(t, d, nil).AdminAddr()
	_, port, _ := net.SplitHostPort(ready)
	file := writeFile(t, "tipcache.yaml", "admin: 0.0.0.0:"+port+"\nadmin_token: none\n")
	unready := startUnready(t, d, func(c *config.Config) { c.Chain.ID = "another-1" })
	unready.eventually("ready except for the node", func() bool {
		problems := unready.ready().Problems
		return len(problems) == 1 && problems["node"] != ""
	})
	tests := map[string]struct{ flag, value, out, err string }{
		"ready":                      {"--admin", ready, `"ready":true`, ""},
		"listening on all addresses": {"--config", file, `"ready":true`, ""},
		"not ready":                  {"--admin", unready.AdminAddr(), "", `"node"`},
		"not running":                {"--admin", "127.0.0.1:1", "", "refused"},
		"without an admin listener":  {"--admin", "none", "", "no listener to query"},
	}
	for name, tt := range tests {
		out, err := runCommand(t, "health", tt.flag, tt.value)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || !strings.Contains(out, tt.out) {
			t.Errorf("health of a server that is %s = %q, %v; want %q, %q", name, out, err, tt.out, tt.err)
		}
	}
}

// A mistake in the file does not end a process that rejected it, so a health check must not replace that process.
func TestHealthIgnoresProblemsOfAConfigurationNotInUse(t *testing.T) {
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	admin := startRunning(t, d, nil).AdminAddr()
	t.Setenv("TIPCACHE_ADMIN", admin)
	for name, text := range map[string]string{"invalid": "chain: {timeout: x}\n", "not YAML": "chain: [\n"} {
		file := writeFile(t, "tipcache.yaml", text)
		if out, err := runCommand(t, "health", "--config", file); err != nil || !strings.Contains(out, `"ready":true`) {
			t.Errorf("health with a file that is %s = %q, %v; want a ready server", name, out, err)
		}
		if _, err := runCommand(t, "health", "--config", file, "--admin", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "tipcache.yaml:1: ") {
			t.Errorf("health of no server with a file that is %s: error = %v, want the problem of the file", name, err)
		}
	}
}
