package rig_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

func TestAnotherServerTakesOver(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	for name, start := range map[string]func(*rig.Rig, context.Context) *rig.Failover{
		"Sentinel": (*rig.Rig).Sentinel,
		"Cluster":  func(r *rig.Rig, ctx context.Context) *rig.Failover { return r.Cluster(ctx, "{key}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := rig.New(t.Context(), rig.Options{Bin: "unused"})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			start(r, t.Context()).KillMaster(t.Context())
		})
	}
}
