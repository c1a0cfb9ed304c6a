package main

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestStreamContinuesWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	r := startRunning(t, newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond}), func(c *config.Config) {
		c.Redis.URL = "redis://" + redis.Addr()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/distribution/validators/"+validator, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines, last := bufio.NewScanner(resp.Body), int64(0)
	for events := 0; events < 8 && lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "event: failure") {
			// A node that takes longer than a quarter of a block is reported.
			if lines.Scan(); !strings.Contains(lines.Text(), "no answer in time") {
				t.Errorf("the stream tells of a failure: %s", lines.Text())
			}
		}
		id, ok := strings.CutPrefix(line, "id: ")
		if !ok {
			continue
		}
		height, _, _ := strings.Cut(id, ".")
		n, err := strconv.ParseInt(height, 10, 64)
		if err != nil || n <= last {
			t.Errorf("event %q after one of block %d", id, last)
		}
		last = n
		if events++; events == 3 {
			redis.Close()
		}
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}
