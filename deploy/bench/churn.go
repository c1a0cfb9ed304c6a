package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func churnPart() part {
	return part{
		name: "churn", about: "what stays held while clients of all kinds come and go, for -churn-for",
		needs: []tool{redisTool}, run: runChurn,
	}
}

const (
	churnClients     = 48     // at any time
	churnCollections = 10_000 // in the store
	churnValidators  = 71

	afterwards = 3 * time.Second // before the last look
)

// churned is a tipcache with all it can be given, under churn.
type churned struct {
	tipcache  *tipcacheProc
	redis     *redis.Client
	operators []string
	tally     *visits
	began     time.Time
	length    time.Duration
}

func runChurn(ctx context.Context, b *bench) error {
	c, err := b.churned(ctx)
	if err != nil {
		return err
	}
	defer c.redis.Close()
	held, err := c.run(ctx)
	if err != nil {
		return err
	}
	c.tally.report(b.out, c.length)
	b.out.table("Churn: held by tipcache, and by Redis", heldHead, heldRows(held))
	grown := growths(held, c.length)
	b.out.table("Churn: growth", []string{"of", "early", "late", "growth", "at most"}, growthRows(grown))
	if b.short {
		return nil // too short a time for anything to have settled
	}
	return grew(grown)
}

// run lets the clients come and go, and looks what is held: before they come,
// meanwhile, and once they have gone.
func (c *churned) run(ctx context.Context) ([]held, error) {
	c.began = time.Now()
	first, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	coming, cancel := context.WithTimeout(ctx, c.length)
	defer cancel()
	var clients sync.WaitGroup
	for i := range churnClients {
		clients.Go(func() { c.client(coming, uint64(i)) })
	}
	all, err := c.watch(coming)
	cancel()
	clients.Wait()
	if err != nil {
		return nil, err
	}
	if !pause(ctx, afterwards) {
		return nil, ctx.Err()
	}
	last, err := c.look(ctx)
	return slices.Concat([]held{first}, all, []held{last}), err
}

// churned starts what the run needs. Memory and Redis have bounds that are
// reached within the first minutes: what grows from then on is a leak.
func (b *bench) churned(ctx context.Context) (*churned, error) {
	c := &churned{tally: &visits{kinds: map[string]*visited{}}, length: b.churnFor}
	if b.short {
		c.length = min(c.length, 20*time.Second)
	}
	d, err := b.devnet(ctx, "--block-time=1s", fmt.Sprintf("--validators=%d", churnValidators))
	if err != nil {
		return nil, err
	}
	if c.operators, err = operators(ctx, d, churnValidators); err != nil {
		return nil, err
	}
	addr, err := b.boundedRedis(ctx)
	if err != nil {
		return nil, err
	}
	c.redis = redis.NewClient(&redis.Options{Addr: addr})
	store, err := b.churnStore(ctx)
	if err != nil {
		return nil, err
	}
	config, err := b.config("churn", "cache: {memory: 32MiB}\nchain: {in_flight: 16}\n")
	if err != nil {
		return nil, err
	}
	c.tipcache, err = b.tipcache(ctx, d, "--config", config, "--redis", "redis://"+addr, "--store", store, "--collections-auth", "none")
	return c, err
}

// boundedRedis starts a Redis that gives up what is asked for least, and returns
// its address.
func (b *bench) boundedRedis(ctx context.Context) (addr string, err error) {
	path, err := redisTool.path()
	if err != nil {
		return "", err
	}
	port := strconv.Itoa(freePort())
	_, err = b.start(ctx, "redis-"+port, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--maxmemory", "32mb", "--maxmemory-policy", "allkeys-lru")
	return "127.0.0.1:" + port, err
}

// churnStore fills a store in a file.
func (b *bench) churnStore(ctx context.Context) (url string, err error) {
	file := filepath.Join(b.dir, "churn.jsonl")
	if err := writeCollections(file, churnCollections); err != nil {
		return "", err
	}
	url = "sqlite:" + filepath.Join(b.dir, "churn.db")
	if out, err := exec.CommandContext(ctx, b.bin, "import", "--store", url, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("import: %w\n%s", err, out)
	}
	return url, nil
}

// client is one visitor after another, until ctx ends.
func (c *churned) client(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, churnClients))
	for ctx.Err() == nil {
		v := &visitor{churned: c, random: random, kind: kindOf(random)}
		v.visit(ctx)
	}
}
