package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// report prints what was measured, since Redis was as it was before.
func (b *bed) report(ctx context.Context, v *clients.Verdict, before rig.Samples) {
	p, w := b.plan, b.W
	seen := b.seen()
	blocks := max(1, b.chain.Height()-seen.first)
	fmt.Fprintf(w, "%d clients, %d replicas, %d keys, %d blocks of %v, node latency %v\n", p.clients, p.replicas, len(b.keys), blocks, blockTime, p.nodeLatency)
	b.printNotes(w)
	fmt.Fprintf(w, "\nanswers             %d, failed %d %v, of cold keys %d\n", v.Answers, v.Failures(), v.Failed, v.Cold)
	fmt.Fprintf(w, "node requests       %v\n", b.nodeLoad())
	fmt.Fprintf(w, "blocks behind       %s\n", shares(seen.behind))
	fmt.Fprintf(w, "height went back    %d times, from one key to another %d times\n", v.Fell, v.Crossed)
	fmt.Fprintf(w, "not the node's own  %d, of no block yet %d, without a height %d %q\n", v.Wrong, v.Early, v.Heightless, v.Examples)
	fmt.Fprintf(w, "latency             %s\n", quantiles(seen.took))
	fmt.Fprintf(w, "  at block change   %s (%d requests within %v)\n", quantiles(seen.atBlock), len(seen.atBlock), atBlockWindow)
	if p.lone > 0 {
		fmt.Fprintf(w, "  of hot keys       %s\n", quantiles(seen.hot))
		fmt.Fprintf(w, "lone clients behind %s\n", shares(seen.lone))
	}
	after := b.redis.Info(ctx)
	perBlock := func(field string) float64 { return (after[field] - before[field]) / float64(blocks) }
	fmt.Fprintf(w, "redis               %.0f keys, %.0f MiB; a block %.0f commands, %.0f KiB in, %.0f KiB out\n", after["db0"], after["used_memory"]/(1<<20),
		perBlock("total_commands_processed"), perBlock("total_net_input_bytes")/1024, perBlock("total_net_output_bytes")/1024)
}

// atBlockWindow is how long after a new block a request counts as sent at the
// block's change.
const atBlockWindow = 250 * time.Millisecond

// seen is what the clients saw.
type seen struct {
	first   int64           // newest block at the first request
	behind  map[int64]int   // answers by blocks behind the tip at the time of asking
	lone    map[int64]int   // the same of clients that are alone with their keys
	took    []time.Duration // of all answers
	hot     []time.Duration // of those to clients that are not alone with their keys
	atBlock []time.Duration // of those asked for within atBlockWindow after a block
}

func (b *bed) seen() seen {
	s := seen{first: b.chain.Height(), behind: map[int64]int{}, lone: map[int64]int{}}
	for _, a := range b.history.Answers {
		s.first = min(s.first, a.Tip)
		if !a.OK() {
			continue
		}
		s.took = append(s.took, a.Took)
		if a.Sent.Sub(b.clock.At(a.Tip)) < atBlockWindow {
			s.atBlock = append(s.atBlock, a.Took)
		}
		if a.Height > 0 && !slices.Contains(b.unpinned, a.Key) { // what is fixed is of any block
			s.behind[max(0, a.Tip-a.Height)]++
			if slices.Contains(b.keys[b.plan.keys:], a.Key) {
				s.lone[max(0, a.Tip-a.Height)]++
			} else {
				s.hot = append(s.hot, a.Took)
			}
		}
	}
	return s
}

// nodeLoad is what the node was asked. The replicas' own probes are told apart.
type nodeLoad struct {
	pairs, reads, probes int64 // pairs of a key and a block
	unused               int64 // pairs of which no client got the answer
	worst                devnet.Asked
}

func (b *bed) nodeLoad() nodeLoad {
	l := nodeLoad{worst: devnet.Asked{URI: "none"}}
	type pair struct {
		key    string
		height int64
	}
	used, last := map[pair]bool{}, int64(0)
	for _, a := range b.history.Answers {
		used[pair{a.Key, a.Height}], last = true, max(last, a.Tip)
	}
	for _, a := range b.chain.Node().Stats().Asked {
		if !slices.Contains(b.keys, a.URI) {
			l.probes += a.Count
			continue
		}
		l.pairs, l.reads = l.pairs+1, l.reads+a.Count
		if a.Height < last && !used[pair{a.URI, a.Height}] { // later there are no clients
			l.unused++
		}
		if a.Count > l.worst.Count {
			l.worst = a
		}
	}
	return l
}

func (l nodeLoad) String() string {
	return fmt.Sprintf("%d for %d pairs of key and block: %.2f a pair, most %d (%s at %d); %d pairs for nobody; %d probes",
		l.reads, l.pairs, float64(l.reads)/float64(max(1, l.pairs)), l.worst.Count, l.worst.URI, l.worst.Height, l.unused, l.probes)
}

func shares(m map[int64]int) string {
	var text strings.Builder
	all := 0
	for _, n := range m {
		all += n
	}
	for _, n := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&text, "%d: %.2f %%  ", n, 100*float64(m[n])/float64(max(1, all)))
	}
	return text.String()
}

func quantiles(all []time.Duration) string {
	ms := figures.Each(all, figures.Milliseconds)
	at := func(q float64) string { return figures.Decimal(figures.Quantile(ms, q)) }
	return fmt.Sprintf("p50 %s  p99 %s  p99.9 %s  max %s ms", at(0.5), at(0.99), at(0.999), at(1))
}
