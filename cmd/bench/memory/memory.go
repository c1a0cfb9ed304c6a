// Package memory has hostile clients fill the memory of a replica by each of its listeners, and holds what the
// process takes against the documented bound.
package memory

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// How long clients attack, and how long the replica then has to get over it.
const (
	attackTime = 10 * time.Second
	shortTime  = 4 * time.Second
	restTime   = 2 * time.Second
)

// Run has each attack fill a replica of its own.
func Run(ctx context.Context, r *rig.Rig) {
	d := r.Chain(devnet.Options{Seed: 1, Interval: time.Second, Dialect: devnet.Cosmos})
	cert := r.Certificate(ctx)
	chosen := rig.CasesOf(r, attacks)
	if len(chosen) == len(attacks) {
		chosen = rig.Sized(r, chosen, slices.DeleteFunc(slices.Clone(chosen), func(a attack) bool { return !a.short }))
	}
	var rows [][]string
	for _, mebibytes := range rig.Sized(r, []int{32, 64, 256}, []int{32}) {
		for _, a := range chosen {
			row, err := measure(ctx, r, d, cert, mebibytes, a)
			rows = append(rows, row)
			r.Broken(err)
			r.Progress("memory: %s beside %d MiB: %s of %s", a.name, mebibytes, row[3], row[4])
		}
	}
	r.Table("Memory: hostile clients of each listener", []string{"attack", "cache.memory MiB", "connections", "most MiB", "bound", "MiB after it", "requests of others", "failed", "slowest ms", "closed"}, rows)
}

// measure has clients attack a replica while another client asks for what is cached.
func measure(ctx context.Context, r *rig.Rig, d *devnet.Devnet, cert string, mebibytes int, a attack) ([]string, error) {
	rpc, grpc := rig.FreeAddr(), rig.FreeAddr()
	s := rig.Before(d, "--dialect", "cosmos", "--rpc-listen", rpc, "--grpc-listen", grpc, "--collections-auth", "none")
	s.Env = []string{fmt.Sprintf("TIPCACHE_CACHE_MEMORY=%dMiB", mebibytes), "TIPCACHE_LOG_LEVEL=warn"}
	if a.tls {
		s.Cert = cert
	}
	t := r.Replica(ctx, s)
	defer t.Stop()
	target := &target{chain: d, rest: rig.Host(t.URL), rpc: rpc, grpc: grpc, tls: a.tls}
	attacking, end := context.WithTimeout(ctx, rig.Sized(r, attackTime, shortTime))
	defer end()
	var all sync.WaitGroup
	var asked, failed, slowest atomic.Int64
	if !a.tls { // the rig's client speaks plain HTTP
		all.Go(func() { probe(attacking, target, &asked, &failed, &slowest) })
	}
	for i := range a.connections {
		all.Go(func() { a.run(attacking, target, i) })
	}
	all.Wait()
	peak := rig.Must(t.Peak())
	rig.Pause(ctx, restTime)
	after := rig.Must(t.Usage()).RSS
	m := rig.Must(t.Metrics(ctx))
	closed := m.Sum("tipcache_http_connections_closed_total", `cause="memory"`) + m.Sum("tipcache_rpc_connections_closed_total", `cause="memory"`) + m.Sum("tipcache_grpc_connections_closed_total", `cause="memory"`)
	most := rig.MemoryBound(mebibytes, a.connections+1)
	row := figures.Row(a.name, fmt.Sprint(mebibytes), fmt.Sprint(a.connections), figures.Mebibytes(float64(peak)), figures.Mebibytes(float64(most)),
		figures.Mebibytes(float64(after)), fmt.Sprint(asked.Load()), fmt.Sprint(failed.Load()), fmt.Sprint(slowest.Load()), fmt.Sprint(closed))
	if peak > most {
		return row, fmt.Errorf("%s: a replica with %d MiB of cache.memory took %d bytes, more than %d", a.name, mebibytes, peak, most)
	}
	return row, nil
}

// probe has a client ask for what is cached.
func probe(ctx context.Context, t *target, asked, failed, slowest *atomic.Int64) {
	c := clients.Conn{Addr: t.rest}
	defer c.Close()
	for rig.Pause(ctx, time.Second/20) {
		began := time.Now()
		resp, err := c.Get(ctx, "/cosmos/staking/v1beta1/params")
		if ctx.Err() != nil {
			return
		}
		asked.Add(1)
		if err != nil || resp.Status != http.StatusOK {
			failed.Add(1)
		}
		slowest.Store(max(slowest.Load(), time.Since(began).Milliseconds()))
	}
}
