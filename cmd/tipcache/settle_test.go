package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestDrainingReplicaSettlesWhatItAdmits(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) {
		c.Redis.URL, c.HTTP.Rate, c.HTTP.DrainDelay = "redis://"+server.Addr(), "1/s burst 3000", 700*time.Millisecond
	})
	began, admitted := time.Now(), 0
	r.stop()
	for {
		resp, err := http.Get(r.base + "/staking/pool")
		if err != nil {
			break
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status = %d, want 200", resp.StatusCode)
			return
		}
		admitted++
		time.Sleep(10 * time.Millisecond)
	}
	expect.NoError(t, r.waitForEnd())
	for _, key := range server.Keys() {
		if !strings.HasPrefix(key, "tipcache:1:rate:") {
			continue
		}
		full := expect.Value(strconv.ParseInt(expect.Value(server.Get(key))(t), 10, 64))(t)
		charged := time.UnixMicro(full).Sub(began).Seconds() // each request is refilled in a second
		if charged < float64(admitted) || charged > float64(admitted)+2 {
			t.Errorf("requests charged in Redis = %.1f, want %d", charged, admitted)
		}
		return
	}
	t.Errorf("keys in Redis = %q, want a bucket for %d requests", server.Keys(), admitted)
}
