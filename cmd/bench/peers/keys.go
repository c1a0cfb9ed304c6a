package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	keysBlock   = 2 * time.Second
	keysClients = 2048 // with a connection each, so many that few are late
	keysWarm    = 5    // blocks that are not counted
	keysBlocks  = 12   // that are
)

// A keysCase is what clients ask for: so many keys, of which each is as likely, or by
// Zipf's law at 0.9.
type keysCase struct {
	name string
	keys int
	rate int // requests a second
	zipf bool
}

var keysCases = []keysCase{
	{"10,000 keys", 10_000, 4_000, false},
	{"10,000 keys by Zipf", 10_000, 2_000, true},
	{"100,000 keys", 100_000, 4_000, false},
}

// Keys measures blocks for which more is wanted than a node answers at once. Requests
// come at a rate, whatever became of those before.
func Keys(ctx context.Context, r *rig.Rig) {
	cases := chooseCases(keysCases, r.Cases, func(c keysCase) string { return c.name })
	if r.Short {
		cases = []keysCase{{"500 keys", 500, 200, false}}
	}
	var rows [][]string
	for _, c := range cases {
		for _, name := range []string{tipcacheName, nginxName} {
			rows = append(rows, c.measure(ctx, r, name))
		}
		r.Progress("keys: %s", c.name)
	}
	r.Table(fmt.Sprintf("keys: %d clients, blocks of %v, a node that takes %v for each of %d reads at once, and longer for each of more", keysClients, keysBlock, busyTakes, busyBears),
		[]string{"case", "req/s", "server", "answers", "failed", "at the start", "p50 ms", "p99 ms", "max ms", "sent late, p99 ms", "current %", "after a third of a block %", "node requests per key and block", "most", "node's most at once", "limit", "CPU s/100k", "MiB"}, rows)
	r.Note("Latencies are from the moment at which a request was due, that at which it was sent included. What failed at the start is of the first %d blocks of a server without memory, which do not count. An answer is current when it is of the newest block at that moment. nginx keeps answers for %v. The limit is how many lists tipcache gave the node at once, at each of the blocks.", keysWarm, peersFresh)
}

// measure runs a case before one server, which is started for it.
func (c keysCase) measure(ctx context.Context, r *rig.Rig, name string) []string {
	chain := r.Chain(devnet.Options{Seed: 1, Interval: keysBlock})
	node := startBusyNode(r, chain, busyTakes)
	p := before(ctx, r, name, origin{node: node.url, comet: chain.CometURL(), fresh: peersFresh}, "--shape", "node")
	run := &keysRun{keysCase: c, clock: clients.NewClock(chain.Height), addr: rig.Host(p.url), clients: keysClients, failed: map[string]int{}}
	asking, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	all.Go(func() { run.clock.Watch(asking) })
	all.Go(func() { run.ask(asking) })
	warm, blocks := int64(keysWarm), int64(keysBlocks)
	if r.Short {
		warm, blocks = 2, 2
	}
	first := run.clock.Wait(ctx, chain.Height()+warm)
	node.counted.Store(first)
	run.since(time.Now())
	var limits []string
	spent := rig.Spent(func() { limits = run.limits(ctx, p, first, blocks) }, p.Process)
	end()
	all.Wait()
	return run.row(p, node, strings.Join(limits, " "), spent[0], rig.Must(p.Usage()).RSS)
}

// A keysRun is what clients were answered.
type keysRun struct {
	keysCase
	clock   *clients.Clock
	addr    string
	clients int

	mu            sync.Mutex
	from          time.Time // when requests are due that count; zero: none yet
	took          []float64 // milliseconds
	lag           []float64 // of these, until the client sent the request
	failed        map[string]int
	early         int // requests before those that count, from the start of the server on
	earlyFailed   int
	current       int
	late, lateOld int // answers asked for a third of a block after its beginning; those that are not current
}

// limits are how much the node was asked at once, at each of so many blocks after the first; none of a peer.
func (k *keysRun) limits(ctx context.Context, p *peer, first, blocks int64) (limits []string) {
	for h := first + 1; h <= first+blocks && ctx.Err() == nil; h++ {
		k.clock.Wait(ctx, h)
		if p.replica != nil {
			limits = append(limits, fmt.Sprintf("%.0f", rig.Must(p.replica.Metrics(ctx)).Sum("tipcache_node_limit")))
		}
	}
	rig.Check(ctx.Err())
	return limits
}

func (k *keysRun) since(from time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.from = from
}

// ask has each client ask at its own times until ctx ends.
func (k *keysRun) ask(ctx context.Context) {
	draw := func() int { return rand.IntN(k.keys) }
	if k.zipf {
		z := clients.NewZipf(0.9, k.keys)
		draw = func() int { return z.Draw(rand.New(rand.NewPCG(rand.Uint64(), 0))) }
	}
	every := time.Second * time.Duration(k.clients) / time.Duration(k.rate)
	var all sync.WaitGroup
	for range k.clients {
		all.Go(func() {
			c := &clients.Conn{Addr: k.addr}
			defer c.Close()
			due := time.Now().Add(rand.N(every))
			for rig.Pause(ctx, time.Until(due)) {
				tip, sent := k.clock.Tip(), time.Now()
				r, err := c.Get(context.WithoutCancel(ctx), busyPath(draw()))
				k.note(due, sent, tip, r, err)
				due = due.Add(every/2 + rand.N(every))
			}
		})
	}
	all.Wait()
}

func (k *keysRun) note(due, sent time.Time, tip int64, r clients.Response, err error) {
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("%d %.120s", r.Status, r.Body)
	}
	height, began := busyHeight(r.Body), k.clock.At(tip)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.from.IsZero() || due.Before(k.from):
		if k.early++; err != nil {
			k.earlyFailed++
		}
		return
	case err != nil:
		k.failed[err.Error()]++
		return
	}
	k.lag = append(k.lag, figures.Milliseconds(sent.Sub(due)))
	k.took = append(k.took, figures.Milliseconds(time.Since(due)))
	if height >= tip {
		k.current++
	}
	if due.Sub(began) > keysBlock/3 {
		if k.late++; height < tip {
			k.lateOld++
		}
	}
}

func (k *keysRun) row(p *peer, node *busyNode, limits string, spent time.Duration, held int64) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	failed := 0
	reasons := ""
	for reason, n := range k.failed {
		failed += n
		reasons += fmt.Sprintf("; %d × %s", n, reason)
	}
	perPair, most := node.reads()
	return figures.Row(k.name, k.rate, p.name, len(k.took), fmt.Sprint(failed, reasons), fmt.Sprintf("%d of %d", k.earlyFailed, k.early), figures.Quantile(k.took, 0.5), figures.Quantile(k.took, 0.99), figures.Quantile(k.took, 1), figures.Quantile(k.lag, 0.99),
		figures.Percent(k.current, len(k.took)), figures.Percent(k.late-k.lateOld, k.late), perPair, most, node.most.Load(), limits, spent.Seconds()/float64(max(1, len(k.took)+failed))*1e5, figures.Mebibytes(float64(held)))
}
