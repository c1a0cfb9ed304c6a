package load

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// indexLatency is that of every request of the execution client.
const indexLatency = 20 * time.Millisecond

// indexAll has `tipcache index` fill each store from the beginning of the chain.
func indexAll(ctx context.Context, r *rig.Rig, d *devnet.Devnet, stores []store) {
	var rows [][]string
	for _, s := range stores {
		rows = append(rows, s.index(ctx, r, d))
		r.Progress("index: %s", s.name)
	}
	r.Table(fmt.Sprintf("Indexing %d blocks, %v a request", d.EVM().Height(), indexLatency),
		[]string{"store", "seconds", "logs", "logs/s", "CPU s per million logs", "RSS MiB at most", "store MiB per million logs"}, rows)
	rig.Check(d.EVM().SetFault(devnet.Fault{}))
}

// index runs until the store has the whole chain, and looks at the process each second.
// It has ended before it could tell of its last logs: they are taken to be as dense as
// those before.
func (s store) index(ctx context.Context, r *rig.Rig, d *devnet.Devnet) []string {
	admin := rig.FreeAddr()
	p := r.Start(ctx, "index", nil, r.Bin, "index", "--evm", d.EVMURL(), "--store", s.url, "--admin", admin, "--from", "1")
	defer p.Stop()
	began, logs, peak, last := time.Now(), 0.0, int64(0), rig.Usage{}
	for ended := false; !ended; {
		select {
		case <-p.Ended():
			ended = true
		case <-time.After(time.Second / 2):
			used, err := p.Usage()
			text, failed := rig.Get(ctx, "http://"+admin+"/metrics")
			if err != nil || failed != nil {
				continue // it has just ended
			}
			m := rig.ParseSamples(text)
			logs, peak, last = m.Sum("tipcache_indexer_logs_total")*float64(d.EVM().Height())/max(1, m.Sum("tipcache_indexer_cursor_block")), max(peak, used.RSS), used
		}
	}
	took := time.Since(began)
	p.Wait()
	s.complete(ctx, d)
	return figures.Row(s.name, took.Seconds(), fmt.Sprintf("%.0f", logs), fmt.Sprintf("%.0f", logs/took.Seconds()), last.CPU.Seconds()/logs*1e6,
		figures.Mebibytes(float64(peak)), figures.Mebibytes(s.size()/logs*1e6))
}

// size is of the store's files, none where it is a server.
func (s store) size() (bytes float64) {
	for _, part := range []string{"", "-wal"} {
		if file, err := os.Stat(strings.TrimPrefix(s.url, "sqlite:") + part); err == nil {
			bytes += float64(file.Size())
		}
	}
	return bytes
}

// complete fails unless the store holds what the chain has come to.
func (s store) complete(ctx context.Context, d *devnet.Devnet) {
	stored := rig.Must(drivers.Open(ctx, s.url, collections.Options{}))
	defer stored.Close()
	type sum struct{ collections, assets, licenses, disputes int64 }
	var got, want sum
	for q, more := (collections.Query{Limit: collections.MaxLimit}), true; more; q.Offset += q.Limit {
		page := rig.Must(stored.List(ctx, q))
		for _, c := range page.Items {
			got = sum{got.collections + 1, got.assets + c.AssetCount, got.licenses + c.LicensesCount, got.disputes + c.RaisedDisputeCount}
		}
		more = len(page.Items) == q.Limit
	}
	for c := range d.CollectionsAt(d.EVM().Height()) {
		want = sum{want.collections + 1, want.assets + c.AssetCount, want.licenses + c.LicensesCount, want.disputes + c.RaisedDisputeCount}
	}
	if got != want {
		rig.Check(fmt.Errorf("%s holds %+v, the chain %+v", s.name, got, want))
	}
}
