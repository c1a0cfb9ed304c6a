package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestHealthExitStatusFollowsReadiness(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	ready := startRunning(t, d, nil).AdminAddr()
	_, port, _ := net.SplitHostPort(ready)
	file := filepath.Join(t.TempDir(), "tipcache.yaml")
	if err := os.WriteFile(file, []byte("admin: 0.0.0.0:"+port+"\nadmin_token: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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

func TestDrainingReplicaAnswersDuringDrainDelay(t *testing.T) {
	t.Parallel()
	for delay := 3 * time.Second; !answersWhileItLeaves(t, delay); delay *= 4 {
		if delay > time.Minute {
			t.Fatalf("the listener was closed before a delay of %v was over", delay)
		}
	}
}

// answersWhileItLeaves reports whether a request arrived before the delay was over, which a busy machine
// may miss, and checks its response.
func answersWhileItLeaves(t *testing.T, delay time.Duration) bool {
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	cfg := unhurried(t, d, "a test's key")
	cfg.HTTP.DrainDelay = delay
	s, err := demo.New(t.Context(), cfg, d, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Service: s, t: t, base: "http://" + s.Addr(), admin: "http://" + s.AdminAddr()}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
	stop()

	// The admin listener closes with the public one, at the end of the delay.
	draining := func() bool {
		resp, err := http.Get(r.admin + "/readyz")
		if err != nil {
			return true
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err != nil || strings.Contains(string(body), `"draining"`)
	}
	r.eventually("draining", draining)
	resp, err := http.Get(r.base + "/staking/params")
	answered := err == nil
	if answered {
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !resp.Close {
			t.Errorf("%s, connection closed: %t", resp.Status, resp.Close)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("public listener still open after Run returned")
	}
	return answered
}
