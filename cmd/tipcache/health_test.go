package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestHealthExitStatusFollowsReadiness(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	ready := startRunning(t, d, nil).AdminAddr()
	_, port, _ := net.SplitHostPort(ready)
	file := filepath.Join(t.TempDir(), "tipcache.yaml")
	expect.NoError(t, os.WriteFile(file, []byte("admin: 0.0.0.0:"+port+"\nadmin_token: none\n"), 0o600))
	lost := startUnready(t, d, func(c *config.Config) { c.Chain.ID = "another-1" })
	lost.eventually("ready except for the node", func() bool {
		problems := lost.ready().Problems
		return len(problems) == 1 && problems["node"] != ""
	})
	tests := map[string]struct{ flag, value, out, err string }{
		"ready":                          {"--admin", ready, `"ready":true`, ""},
		"listening on all its addresses": {"--config", file, `"ready":true`, ""},
		"not ready":                      {"--admin", lost.AdminAddr(), "", `"node"`},
		"not running":                    {"--admin", "127.0.0.1:1", "", "refused"},
		"without an admin listener":      {"--admin", "none", "", "no listener to query"},
	}
	for name, tt := range tests {
		var out bytes.Buffer
		err := run(t.Context(), []string{"health", tt.flag, tt.value}, streams{&out, io.Discard})
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || !strings.Contains(out.String(), tt.out) {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}
