package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// held is what tipcache, and Redis, hold at a moment of the run.
type held struct {
	at       time.Duration
	requests int        // of the clients, since the look before
	values   [6]float64 // as in measured
}

// measured are the values of held, and by how much each may grow: by that share
// and that many more; shares below zero are not judged.
var measured = [6]struct {
	name  string
	unit  float64
	share float64
	more  float64
}{
	{"RSS MiB", 1 << 20, 0.15, 0},
	{"goroutines", 1, 0.10, 10},
	{"fds", 1, 0.10, 10},
	{"cache MiB", 1 << 20, -1, 0},
	{"entries", 1, -1, 0},
	{"Redis MiB", 1 << 20, -1, 0},
}

var heldHead = []string{"at", "requests/s", "RSS MiB", "goroutines", "fds", "cache MiB", "entries", "Redis MiB"}

// watch looks every 30 s, and 20 times at least, until ctx ends.
func (c *churned) watch(ctx context.Context) ([]held, error) {
	every := time.NewTicker(max(time.Second, min(30*time.Second, c.length/20)))
	defer every.Stop()
	var all []held
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return all, nil
			}
			return all, ctx.Err()
		case <-every.C:
		}
		h, err := c.look(ctx)
		if ctx.Err() != nil {
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, h)
	}
}

func (c *churned) look(ctx context.Context) (held, error) {
	u, err := c.tipcache.usage()
	if err != nil {
		return held{}, err
	}
	m, err := c.tipcache.metrics(ctx)
	if err != nil {
		return held{}, err
	}
	info, err := c.redis.Info(ctx, "memory").Result()
	if err != nil {
		return held{}, err
	}
	return held{time.Since(c.began), c.tally.since(), [6]float64{
		float64(u.rss), m.sum(goroutines), float64(u.fds), m.sum(cacheBytes), m.sum(cacheEntries), usedMemory(info),
	}}, nil
}

var redisMemory = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

// usedMemory reads what Redis says of its memory.
func usedMemory(info string) float64 {
	bytes, _ := strconv.ParseFloat(submatch(redisMemory, info), 64)
	return bytes
}

func heldRows(all []held) [][]string {
	var rows [][]string
	before := time.Duration(0)
	for i, h := range all {
		at := h.at.Round(time.Second).String()
		switch i {
		case 0:
			at = "before"
		case len(all) - 1:
			at = "after"
		}
		row := []string{at, fmt.Sprintf("%.0f", float64(h.requests)/(h.at-before).Seconds())}
		before = h.at
		for i, v := range h.values {
			row = append(row, fmt.Sprintf("%.*f", decimals(measured[i].unit), v/measured[i].unit))
		}
		rows = append(rows, row)
	}
	return rows
}

func decimals(unit float64) int {
	if unit > 1 {
		return 1
	}
	return 0
}
