package rig_test

import (
	"os/exec"
	"testing"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

func TestAnotherServerTakesOver(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	for name, start := range map[string]func(*rig.Rig) (*rig.Failover, error){
		"Sentinel": func(r *rig.Rig) (*rig.Failover, error) { return r.Sentinel(t.Context()) },
		"Cluster":  func(r *rig.Rig) (*rig.Failover, error) { return r.Cluster(t.Context(), "{key}") },
	} {
		t.Run(name, func(t *testing.T) {
			r, err := rig.New(t.Context(), rig.Options{Bin: "unused"})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			f, err := start(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.KillMaster(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
