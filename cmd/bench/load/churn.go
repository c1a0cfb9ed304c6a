package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	churnClients     = 48     // at any time
	churnCollections = 10_000 // in the store
)

// churned is a tipcache with all it can be given, under churn.
type churned struct {
	tipcache  *rig.Replica
	redis     *rig.Redis
	operators []string
	tally     visits
	length    time.Duration
}

// Churn measures what stays held while clients of all kinds come and go.
func Churn(ctx context.Context, r *rig.Rig) error {
	c, err := startChurned(ctx, r)
	if err != nil {
		return err
	}
	held, err := c.run(ctx)
	if err != nil {
		return err
	}
	c.tally.report(r, c.length)
	r.ReportHeld("Churn: held by tipcache, and by Redis", held)
	err = r.ReportGrowth("Churn: growth", held, c.length)
	if r.Short {
		return nil // too short a time for anything to have settled
	}
	return err
}

// run lets the clients come and go, and looks what is held: before they come,
// meanwhile, and once they have gone.
func (c *churned) run(ctx context.Context) ([]rig.Held, error) {
	watch := rig.Watch{Replica: c.tipcache, Redis: c.redis, Began: time.Now(), Requests: c.tally.requests}
	first, err := watch.Look(ctx)
	if err != nil {
		return nil, err
	}
	coming, cancel := context.WithTimeout(ctx, c.length)
	defer cancel()
	var clients sync.WaitGroup
	for i := range churnClients {
		clients.Go(func() { c.client(coming, uint64(i)) })
	}
	all, err := watch.Run(coming, c.length)
	cancel()
	clients.Wait()
	if err != nil {
		return nil, err
	}
	rig.Pause(ctx, 3*time.Second) // for what ends with the last clients
	last, err := watch.Look(ctx)
	return slices.Concat([]rig.Held{first}, all, []rig.Held{last}), err
}

// startChurned starts what the run needs. Memory and Redis have bounds that are
// reached within the first minutes: what grows from then on is a leak.
func startChurned(ctx context.Context, r *rig.Rig) (*churned, error) {
	c := &churned{length: r.For, tally: visits{kinds: map[string]visited{}}}
	if r.Short {
		c.length = min(c.length, 20*time.Second)
	}
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: time.Second})
	if err != nil {
		return nil, err
	}
	c.operators = d.Validators()
	if c.redis, err = r.Redis(ctx, "--maxmemory", "32mb", "--maxmemory-policy", "allkeys-lru"); err != nil {
		return nil, err
	}
	store := "sqlite:" + filepath.Join(r.Dir, "churn.db")
	if _, err := importCollections(ctx, r, store, churnCollections); err != nil {
		return nil, err
	}
	config, err := r.File("churn.yaml", "cache: {memory: 32MiB}\nchain: {in_flight: 16}\n")
	if err != nil {
		return nil, err
	}
	c.tipcache, err = r.Replica(ctx, rig.Before(d, "--config", config, "--redis", c.redis.URL(), "--store", store, "--collections-auth", "none"))
	return c, err
}

// client is one visitor after another, until ctx ends.
func (c *churned) client(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, churnClients))
	for ctx.Err() == nil {
		v := &visitor{churned: c, random: random, kind: kindOf(random)}
		v.conn.Addr = rig.Host(c.tipcache.URL)
		v.visit(v, ctx)
		v.conn.Close()
	}
}

// visits counts the requests by the kind of client.
type visits struct {
	mu    sync.Mutex
	kinds map[string]visited
	all   int // requests
}

type visited struct {
	requests, unexpected int
	first                string // unexpected thing
}

// count takes one more request, and what was unexpected about it if anything.
func (t *visits) count(kind, unexpected string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	v := t.kinds[kind]
	v.requests++
	if unexpected != "" {
		v.unexpected++
		v.first = cmp.Or(v.first, unexpected)
	}
	t.kinds[kind] = v
}

func (t *visits) requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}

func (t *visits) report(r *rig.Rig, length time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows [][]string
	for _, k := range kinds {
		if v := t.kinds[k.name]; v.requests > 0 {
			rows = append(rows, figures.Row(k.name, v.requests, v.unexpected, v.first))
		}
	}
	r.Table(fmt.Sprintf("Churn: %d clients at a time, for %v, a block a second", churnClients, length), []string{"clients", "requests", "unexpected", "first of them"}, rows)
}
