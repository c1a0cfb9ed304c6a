package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// report prints what was measured.
func (m *measurement) report(w io.Writer, before, after usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, blocks := m.plan, m.blocks[1]-m.blocks[0]
	fmt.Fprintf(w, "%d clients, %d replicas, %d keys, %d blocks of %v, node latency %v\n", p.clients, p.replicas, len(m.keys), blocks, p.blockTime, p.nodeLatency)
	for _, n := range m.notes {
		fmt.Fprintln(w, "  ", n)
	}
	fmt.Fprintf(w, "\nanswers             %d, failed %s\n", len(m.latency), counts(m.failures))
	fmt.Fprintf(w, "node requests       %v\n", m.nodeLoad())
	fmt.Fprintf(w, "blocks behind       %s\n", shares(m.staleness, len(m.latency)))
	fmt.Fprintf(w, "height went back    %d times\n", m.backward)
	fmt.Fprintf(w, "not the node's own  %d of %d judged %v\n", len(m.mixed), m.judged, m.mixed)
	fmt.Fprintf(w, "latency             %s\n", quantiles(m.latency))
	fmt.Fprintf(w, "  at block change   %s (%d requests within %v)\n", quantiles(m.atBlock), len(m.atBlock), atBlockWindow)
	for _, o := range slices.Sorted(maps.Keys(m.outcomes)) {
		fmt.Fprintf(w, "  %-60s %5.1f %%\n", o, 100*float64(m.outcomes[o])/float64(max(1, len(m.latency))))
	}
	fmt.Fprintf(w, "redis               %d keys, %d MiB, %.0f commands a block\n", after.redisKeys, after.redisMiB,
		float64(after.redisCommands-before.redisCommands)/float64(max(1, blocks)))
	fmt.Fprintf(w, "goroutines          %v before, %v after\n", before.goroutines, after.goroutines)
	fmt.Fprintf(w, "resident MiB        %v before, %v after\n", before.residentMiB, after.residentMiB)
}

// nodeLoad is what the node was asked. The replicas' own probes are told apart.
type nodeLoad struct {
	pairs, reads, probes int64 // pairs of a key and a block
	worst                devnet.Asked
}

func (m *measurement) nodeLoad() nodeLoad {
	l := nodeLoad{worst: devnet.Asked{URI: "none"}}
	for _, a := range m.bed.devnet.Node().Stats().Asked {
		if !slices.Contains(m.keys, a.URI) {
			l.probes += a.Count
			continue
		}
		l.pairs, l.reads = l.pairs+1, l.reads+a.Count
		if a.Count > l.worst.Count {
			l.worst = a
		}
	}
	return l
}

func (l nodeLoad) String() string {
	return fmt.Sprintf("%d for %d pairs of key and block: %.2f a pair, most %d (%s at %d); %d probes",
		l.reads, l.pairs, float64(l.reads)/float64(max(1, l.pairs)), l.worst.Count, l.worst.URI, l.worst.Height, l.probes)
}

// broken is an error that names every promise the run has broken. Where the
// node, Redis or a replica fails in the middle a block may be read again.
func (m *measurement) broken() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var broken []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Errorf(format, args...))
		}
	}
	failed := 0
	for _, n := range m.failures {
		failed += n
	}
	check(failed == 0, "%d requests failed", failed)
	check(len(m.latency) > 0, "nothing was answered")
	check(m.backward == 0, "heights went back %d times", m.backward)
	check(len(m.mixed) == 0, "answers of another height: %v", m.mixed)
	load := m.nodeLoad()
	disturbed := m.plan.stopNode > 0 || m.plan.stopRedis > 0 || m.plan.killReplica
	check(load.worst.Count <= 1 || disturbed, "node requests: %v", load)
	return errors.Join(broken...)
}

func counts(m map[string]int) string {
	if len(m) == 0 {
		return "0"
	}
	return fmt.Sprint(m)
}

func shares(m map[int64]int, all int) string {
	var text strings.Builder
	for _, n := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&text, "%d: %.2f %%  ", n, 100*float64(m[n])/float64(max(1, all)))
	}
	return text.String()
}

func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(len(all)-1, int(q*float64(len(all))))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v  p99 %v  p99.9 %v  max %v", at(0.5), at(0.99), at(0.999), at(1))
}
