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
	rig.Watch
	operators []string
	mu        sync.Mutex // of the counts of each kind
	kinds     []*kind
}

// Churn measures what stays held while clients of all kinds come and go.
func Churn(ctx context.Context, r *rig.Rig) error {
	length := r.For
	if r.Short {
		length = min(length, 20*time.Second)
	}
	c, err := startChurned(ctx, r)
	if err != nil {
		return err
	}
	held, err := c.run(ctx, length)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, k := range c.kinds {
		if k.requests > 0 {
			rows = append(rows, figures.Row(k.name, k.requests, k.unexpected, k.first))
		}
	}
	r.Table(fmt.Sprintf("Churn: %d clients at a time, for %v, a block a second", churnClients, length), []string{"clients", "requests", "unexpected", "first of them"}, rows)
	r.ReportHeld("Churn: held by tipcache, and by Redis", held)
	err = r.ReportGrowth("Churn: growth", held, length)
	if r.Short {
		return nil // too short a time for anything to have settled
	}
	return err
}

// run lets the clients come and go, and looks what is held: before they come,
// meanwhile, and once they have gone.
func (c *churned) run(ctx context.Context, length time.Duration) ([]rig.Held, error) {
	c.Began = time.Now()
	first, err := c.Look(ctx)
	if err != nil {
		return nil, err
	}
	coming, cancel := context.WithCancel(ctx) // without a deadline, at which a client's dial would end before ctx does
	defer cancel()
	time.AfterFunc(length, cancel)
	var clients sync.WaitGroup
	for i := range churnClients {
		clients.Go(func() { c.client(coming, uint64(i)) })
	}
	all := c.Run(coming, length)
	clients.Wait()
	rig.Pause(ctx, 3*time.Second) // for what ends with the last clients
	last, err := c.Look(ctx)
	return slices.Concat([]rig.Held{first}, all, []rig.Held{last}), err
}

// startChurned starts what the run needs. Memory and Redis have bounds that are
// reached within the first minutes: what grows from then on is a leak.
func startChurned(ctx context.Context, r *rig.Rig) (*churned, error) {
	c := &churned{kinds: kindsOfClients()}
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: time.Second})
	if err != nil {
		return nil, err
	}
	c.operators = d.Validators()
	if c.Redis, err = r.Redis(ctx, "--maxmemory", "32mb", "--maxmemory-policy", "allkeys-lru"); err != nil {
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
	c.Replica, err = r.Replica(ctx, rig.Before(d, "--config", config, "--redis", c.Redis.URL(), "--store", store, "--collections-auth", "none"))
	return c, err
}

// client is one visitor after another, until ctx ends.
func (c *churned) client(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, churnClients))
	for ctx.Err() == nil {
		v := &visitor{churned: c, random: random, kind: c.draw(random)}
		v.conn.Addr = rig.Host(c.Replica.URL)
		v.visit(v, ctx)
		v.conn.Close()
	}
}

// draw takes a kind of clients by its weight; the weights sum up to 100.
func (c *churned) draw(r *rand.Rand) *kind {
	n := r.IntN(100)
	return c.kinds[slices.IndexFunc(c.kinds, func(k *kind) bool { n -= k.weight; return n < 0 })]
}

// count takes one more request, and what was unexpected about it if anything.
func (v *visitor) count(unexpected string) {
	v.Requests.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests++
	if unexpected != "" {
		v.unexpected++
		v.first = cmp.Or(v.first, unexpected)
	}
}
