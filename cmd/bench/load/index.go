package load

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// indexLatency is that of every request of the execution client.
const indexLatency = 20 * time.Millisecond

// indexAll has `tipcache index` fill each store from the beginning of the chain.
func indexAll(ctx context.Context, r *rig.Rig, d *devnet.Devnet, stores []store) error {
	var rows [][]string
	for _, s := range stores {
		row, err := s.index(ctx, r, d)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, row)
		r.Progress("index: %s", s.name)
	}
	r.Table(fmt.Sprintf("Indexing %d blocks, %v a request", d.EVM().Height(), indexLatency),
		[]string{"store", "seconds", "logs", "logs/s", "CPU s per million logs", "RSS MiB at most", "store MiB per million logs"}, rows)
	return d.EVM().SetFault(devnet.Fault{})
}

// index runs until the store has the whole chain, and looks at the process each second.
// It has ended before it could tell of its last logs: they are taken to be as dense as
// those before.
func (s store) index(ctx context.Context, r *rig.Rig, d *devnet.Devnet) ([]string, error) {
	p, admin, err := r.Index(ctx, d, s.url, nil, "--from", "1")
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	began, logs, peak, last := time.Now(), 0.0, int64(0), rig.Usage{}
	for ended := false; !ended; {
		select {
		case <-p.Ended():
			ended = true
		case <-time.After(time.Second / 2):
			used, err := p.Usage()
			text, failed := rig.Get(ctx, admin+"/metrics")
			if err != nil || failed != nil {
				continue // it has just ended
			}
			m := rig.ParseSamples(text)
			logs, peak, last = m.Sum("tipcache_indexer_logs_total")*float64(d.EVM().Height())/max(1, m.Sum("tipcache_indexer_cursor_block")), max(peak, used.RSS), used
		}
	}
	took := time.Since(began)
	if err := p.Wait(); err != nil {
		return nil, err
	}
	return figures.Row(s.name, took.Seconds(), fmt.Sprintf("%.0f", logs), fmt.Sprintf("%.0f", logs/took.Seconds()), last.CPU.Seconds()/logs*1e6,
		figures.Mebibytes(float64(peak)), figures.Mebibytes(s.size()/logs*1e6)), rig.Indexed(ctx, d, s.url)
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
