package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	keysBlock   = 2 * time.Second
	keysClients = 2048 // one connection each; enough that few requests are late
	keysWarm    = 5    // blocks before counting starts
	keysBlocks  = 12   // counted blocks

	nginxFresh = time.Second // how long nginx caches responses
)

// A keysCase is a distribution of requests over keys: uniform, or by Zipf's law with exponent 0.9.
type keysCase struct {
	name string
	keys int
	rate int // requests per second
	zipf bool
}

func (c keysCase) String() string { return c.name }

var keysCases = []keysCase{
	{"10,000 keys", 10_000, 4_000, false},
	{"10,000 keys by Zipf", 10_000, 2_000, true},
	{"100,000 keys", 100_000, 4_000, false},
}

// Keys measures blocks with more requested keys than a node can answer at once. Requests arrive at a fixed rate,
// whether or not earlier ones were answered.
func Keys(ctx context.Context, r *rig.Rig) {
	cases := rig.Sized(r, rig.CasesOf(r, keysCases), []keysCase{{"500 keys", 500, 200, false}})
	var rows [][]string
	for _, c := range cases {
		for _, name := range []string{tipcacheName, nginxName} {
			rows = append(rows, c.measure(ctx, r, name))
		}
		r.Progress("keys: %s", c.name)
	}
	r.Table(fmt.Sprintf("keys: %d clients, blocks of %v, a node that answers up to %[4]d reads at once in %[3]v, and more of them more slowly", keysClients, keysBlock, busyLatency, busyCapacity),
		[]string{"case", "req/s", "server", "answers", "failed", "at the start", "p50 ms", "p99 ms", "current %", "node requests per key and block", "most"}, rows)
	r.Note("Latencies are from the moment at which a request was due. Failures at the start are those of the first %d blocks, which are not counted. An answer is current if it is from the newest block at that moment. nginx caches answers for %v.", keysWarm, nginxFresh)
}

// measure starts a server and runs a case against it.
func (c keysCase) measure(ctx context.Context, r *rig.Rig, name string) []string {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: keysBlock})
	node := startBusyNode(r, chain, busyLatency)
	p := before(ctx, r, name, origin{node: node.url, comet: chain.CometURL(), fresh: nginxFresh}, "--shape", "node")
	run := &keysRun{keysCase: c, chain: chain, addr: rig.Host(p.urls[plain]), clients: keysClients}
	_ = sustain(ctx, r, node, p.Process, keysWarm, keysBlocks, run)
	return run.row(name, node)
}

// sustain sends requests for some blocks before counting, and then for the counted blocks, in which it measures the CPU
// time of a process.
func sustain(ctx context.Context, r *rig.Rig, node *busyNode, p *rig.Process, warm, blocks int64, runs ...*keysRun) time.Duration {
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for _, run := range runs {
		all.Go(func() { run.ask(asking) })
	}
	first := clients.AwaitBlock(ctx, node.chain, node.chain.Height()+rig.Sized(r, warm, 2))
	node.counted.Store(first)
	for _, run := range runs {
		run.since(time.Now())
	}
	spent := rig.Spent(p, func() { clients.AwaitBlock(ctx, node.chain, first+rig.Sized(r, blocks, 2)) })
	node.counted.Store(0) // the CPU of what clients still ask is not in spent
	rig.Check(ctx.Err())
	return spent
}

// A keysRun collects the responses that clients received.
type keysRun struct {
	keysCase
	chain   *devnet.Devnet
	addr    string
	clients int

	mu                 sync.Mutex
	from               time.Time // requests due at or after this time are counted; zero: none yet
	took               []float64 // milliseconds
	current            int       // how many of them came from the newest block
	failed             int
	failure            error // of one of these
	early, earlyFailed int   // requests since the server's start that are not counted
}

func (k *keysRun) since(from time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.from = from
}

// ask sends each client's requests at their times until ctx ends.
func (k *keysRun) ask(ctx context.Context) {
	draw := rand.IntN
	if k.zipf {
		draw = clients.Zipf
	}
	every := time.Second * time.Duration(k.clients) / time.Duration(k.rate)
	_ = clients.NewCrowd(k.addr, k.clients).All(func(c *clients.Conn) error {
		defer c.Close()
		due := time.Now().Add(rand.N(every))
		for rig.Pause(ctx, time.Until(due)) {
			tip := k.chain.Height()
			r, err := c.Get(context.WithoutCancel(ctx), busyPath(small, int64(draw(k.keys))))
			k.note(due, tip, r, err)
			due = due.Add(every/2 + rand.N(every))
		}
		return nil
	})
}

func (k *keysRun) note(due time.Time, tip int64, r clients.Response, err error) {
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("%d %.120s", r.Status, r.Body)
	}
	height := busyHeight(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.from.IsZero() || due.Before(k.from):
		if k.early++; err != nil {
			k.earlyFailed++
		}
	case err != nil:
		k.failed, k.failure = k.failed+1, err
	default:
		k.took = append(k.took, figures.Milliseconds(time.Since(due)))
		if height >= tip {
			k.current++
		}
	}
}

func (k *keysRun) row(server string, node *busyNode) []string {
	failed := strconv.Itoa(k.failed)
	if k.failed > 0 {
		failed += ", such as " + k.failure.Error()
	}
	_, mean, most := node.reads(small)
	return figures.Row(k.name, k.rate, server, len(k.took), failed, fmt.Sprintf("%d of %d", k.earlyFailed, k.early), figures.Quantile(k.took, 0.5), figures.Quantile(k.took, 0.99),
		100*float64(k.current)/float64(len(k.took)), mean, most)
}
