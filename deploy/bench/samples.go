package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// samples are the values of a Prometheus text by series, as in
// name{label="value"}.
type samples map[string]float64

// parseSamples reads the text format as client_golang writes it.
func parseSamples(text string) samples {
	s := samples{}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
			s[line[:at]] = v
		}
	}
	return s
}

// sum adds up the series of a metric that have all the labels, as in
// outcome="hit".
func (s samples) sum(metric string, labels ...string) (total float64) {
	for series, v := range s {
		name, rest, _ := strings.Cut(series, "{")
		if name == metric && containsAll(rest, labels) {
			total += v
		}
	}
	return total
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// cacheRequests counts what the cache was asked, and what of that was a hit in
// the store, "memory" or "shared".
func (t *tipcacheProc) cacheRequests(ctx context.Context, store string) (all, hits float64, err error) {
	text, err := get(ctx, t.admin+"/metrics")
	s := parseSamples(text)
	const name = "tipcache_cache_requests_total"
	return s.sum(name), s.sum(name, `outcome="hit"`, fmt.Sprintf("store=%q", store)), err
}
