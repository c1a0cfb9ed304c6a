// Package sessions measures whether a session holds where its connections do not: through
// an nginx that pools them, over replicas that restart, lose a node and follow a chain that
// is set back.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	replicas   = 3
	sessions   = 48
	blockTime  = time.Second
	outage     = 5 * time.Second // of a node
	setBackBy  = 20              // blocks
	afterFault = 4 * time.Second
)

// Sessions counts what clients in a session see.
func Sessions(ctx context.Context, r *rig.Rig) {
	enough := 1_000_000
	if r.Short {
		enough = 2_000
	}
	var rows [][]string
	var failed error
	for _, k := range kinds {
		b, reads := start(ctx, r, k), enough
		if k.silent { // a control
			reads /= 4
		}
		b.run(ctx, reads)
		rows = append(rows, b.row())
		failed = errors.Join(failed, b.verdict(r.Short))
		r.Progress("sessions: %s", b.name)
		r.Stop()
	}
	r.Table(fmt.Sprintf("%d sessions through an nginx that pools connections, over %d replicas with a node each: rolling restart, outage of a node, failover of Redis, set-back by %d blocks; blocks of %v", sessions, replicas, setBackBy, blockTime),
		[]string{"replicas", "reads", "blocks", "backward, unmarked", "own writes missed", "other bodies", "marked", "marked %", "but for the faults %", "begun anew", "409", "other failures"}, rows)
	r.Note("Each client closes its connection now and then. A write is a block that the chain has: its reader waits for it by X-Min-Block-Height, and each later read of the session is to hold it. What is marked in the %v from a fault on counts as the fault's. Other bodies are those that differ from the first of the same path and block. Clients without X-Session show what the rig finds where nothing keeps the promise; their chain is not set back.", outage+afterFault)
	rig.Check(failed)
}

// A kind is how the clients and replicas of a bed are.
type kind struct {
	name   string
	shared bool // the replicas have a Redis in common
	silent bool // no client sends a session
}

var kinds = []kind{{name: "each alone, without X-Session", silent: true}, {name: "each alone"}, {name: "with a common Redis", shared: true}}

// A bed is the replicas behind an nginx, and what their clients have seen.
type bed struct {
	kind
	chain    *devnet.Devnet
	nodes    []*devnet.Node
	replicas []*rig.Replica
	addr     string
	first    int64         // block
	redis    *rig.Failover // nil: none
	faults   atomic.Int64  // Unix milliseconds until which marks are of a fault
	history  atomic.Int64  // of the chain; 0 while it is set back

	clients.Tally
	bodies sync.Map // of history, path and block: the first
}

func start(ctx context.Context, r *rig.Rig, k kind) *bed {
	b := &bed{kind: k, chain: r.Chain(devnet.Options{Seed: 1, Interval: blockTime})}
	b.history.Store(1)
	b.nodes, b.first = rig.Nodes(b.chain, replicas), b.chain.Height()
	redis := "none"
	if b.shared {
		b.redis = r.Sentinel(ctx)
		redis = b.redis.URL
	}
	servers := ""
	for i, n := range b.nodes {
		next := b.nodes[(i+1)%replicas] // to fail over to
		t := r.Replica(ctx, rig.Serving{Node: n.RESTURL(), Comet: n.CometURL(), Flags: []string{"--node", next.RESTURL(), "--comet", next.CometURL(), "--redis", redis}})
		b.replicas = append(b.replicas, t)
		servers += "    server " + rig.Host(t.URL) + " max_fails=0;\n"
	}
	b.addr = r.Front(ctx, "nginx", "/staking/pool", func(_, addr string) string { return fmt.Sprintf(ingress, servers, addr) }).Addr
	return b
}

// ingress is an nginx before all replicas, whose connections to them it keeps and gives to
// any client.
const ingress = `
worker_processes 2;
error_log stderr error;
events { worker_connections 1024; }
http {
  access_log off;
  upstream tipcache {
%s    keepalive 16;
  }
  server {
    listen %s;
    location / {
      proxy_pass http://tipcache;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`

// run has the clients read so often, with faults at equal distances.
func (b *bed) run(ctx context.Context, enough int) {
	running, leave := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	for range sessions {
		all.Go(func() { b.session(running) })
	}
	faults := b.faultsOf()
	for i, fault := range faults {
		b.reach(ctx, enough*(i+1)/(len(faults)+1))
		b.during(10 * time.Minute)
		fault(ctx)
		b.during(afterFault)
	}
	b.reach(ctx, enough)
}

// faultsOf are those of the kind: the replicas are replaced one after another, a node is away
// of which a replica knows another, a master dies, and the chain is set back.
func (b *bed) faultsOf() []func(context.Context) {
	faults := []func(context.Context){b.restart, func(ctx context.Context) { rig.Away(ctx, b.nodes[1], outage) }}
	if b.shared {
		faults = append(faults, b.redis.KillMaster)
	}
	if !b.silent {
		faults = append(faults, b.setBack)
	}
	return faults
}

// paths are of both classes.
var paths = []string{
	"/staking/pool", "/staking/params", "/distribution/params", "/mint/params",
	"/staking/validators?pagination.limit=5", "/staking/validators?status=bonded&pagination.limit=3",
}

func (b *bed) reach(ctx context.Context, least int) {
	for b.Of(reads) < least && rig.Pause(ctx, 20*time.Millisecond) {
	}
	rig.Check(ctx.Err())
}

// during tells that marks are the fault's from now on.
func (b *bed) during(d time.Duration) { b.faults.Store(time.Now().Add(d).UnixMilli()) }

func (b *bed) restart(ctx context.Context) {
	for _, t := range b.replicas {
		t.Renew(ctx)
	}
}

// setBack takes blocks away, and waits until all replicas have found that.
func (b *bed) setBack(ctx context.Context) {
	before := b.history.Swap(0)
	defer b.history.Store(before + 1)
	b.chain.SetBack(setBackBy)
	for height := b.chain.Height() + setBackBy + 5; b.chain.Height() < height && rig.Pause(ctx, 100*time.Millisecond); {
	}
}

// The names of the tally.
const (
	reads, backward, missed, other, marked, faulty, anew, conflicts, failures = "reads", "backward", "missed", "other", "marked", "faulty", "anew", "conflicts", "failures"
)

func (b *bed) row() []string {
	share := func(n int) float64 { return 100 * float64(n) / float64(b.Of(reads)) }
	row := append([]any{b.name, b.Of(reads), b.chain.Height() - b.first}, b.Row(backward, missed, other, marked)...)
	return figures.Row(append(append(row, share(b.Of(marked)), share(b.Of(marked)-b.Of(faulty))), b.Row(anew, conflicts, failures)...)...)
}

func (b *bed) verdict(short bool) error {
	wrong := b.Of(missed, other)
	switch back := b.Of(backward); {
	case !b.silent:
		wrong += back
	case back == 0 && !short:
		return fmt.Errorf("%s: no height goes back, so that the rig shows nothing", b.name)
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", b.name, b.Wrong())
}
