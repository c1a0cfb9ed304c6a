package main

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A replica is a serve that would index.
type replica struct {
	*program
	adminURL string
}

func startReplica(t *testing.T, d *devnet.Devnet, store string) *replica {
	t.Helper()
	p := startProgram(t, nil,
		"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--node", d.NodeURL(), "--comet", d.CometURL(),
		"--store", store, "--collections-auth", "none", "--index", "--evm", d.EVMURL(), "--network", "aeneid")
	return &replica{p, p.admin()}
}

// indexes says whether it is this one's turn.
func (r *replica) indexes() bool {
	r.t.Helper()
	return sample(r.t, r.adminURL, `tipcache_indexer_state{state="unverified"}`) == "1" // there is one execution client
}

// cursor is the last block that this one has taken over, 0 for none.
func (r *replica) cursor() int64 {
	r.t.Helper()
	block, _ := strconv.ParseInt(sample(r.t, r.adminURL, "tipcache_indexer_cursor_block"), 10, 64)
	return block
}

func TestReplicaTakesOverLeaseOfKilledReplica(t *testing.T) {
	t.Parallel()
	url := postgrestest.Schema(t)
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond, EVMRange: 10})
	must(t, d.EVM().SetFault(devnet.Fault{Latency: 100 * time.Millisecond}))
	defer http.DefaultClient.CloseIdleConnections()
	first, second := startReplica(t, d, url), startReplica(t, d, url)
	first.until(func() bool { return first.cursor()+second.cursor() > 0 })
	if second.indexes() {
		first, second = second, first
	}
	for range 50 {
		if !first.indexes() || second.indexes() {
			t.Fatal("number of indexing replicas != 1")
		}
		time.Sleep(20 * time.Millisecond)
	}
	d.Advance(100) // so that the first one leaves something to do
	first.kill()
	second.until(func() bool { return second.cursor() > 0 })
	must(t, d.EVM().SetFault(devnet.Fault{}))
	d.Halt()
	second.until(func() bool { return second.cursor() == d.EVM().Height() })
	second.kill()
	undisturbed := postgrestest.Schema(t)
	indexAll(t, d, undisturbed)
	expectSameRows(t, undisturbed, url)
}
