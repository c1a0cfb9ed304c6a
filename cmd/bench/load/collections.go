package load

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A store is a collection store to measure.
type store struct{ name, url string }

// Collections measures stores: it indexes a chain into each, imports a million collections into each, and requests
// pages of them.
func Collections(ctx context.Context, r *rig.Rig) {
	imported, asks := rig.Sized(r, 1_000_000, 50_000), rig.Sized(r, 200, 20)
	history := rig.Sized(r, 125_000, 1000) // of 10 million logs
	d := r.Chain(devnet.Options{Seed: 1, Interval: -1, Collections: history, Faults: devnet.Faults{EVM: devnet.Fault{Latency: indexLatency}}})
	indexAll(ctx, r, d, newStores(ctx, r, "indexed.db"))
	importAll(ctx, r, d, newStores(ctx, r, "imported.db"), imported, asks)
}

// newStores creates an empty store of each kind.
func newStores(ctx context.Context, r *rig.Rig, file string) []store {
	return []store{{"SQLite", "sqlite:" + filepath.Join(r.Dir, file)}, {"PostgreSQL", r.Postgres(ctx)}}
}

// importAll imports n collections into each store and requests pages of them.
func importAll(ctx context.Context, r *rig.Rig, d *devnet.Devnet, stores []store, n, asks int) {
	var imports, rows [][]string
	head := []string{"pages of 20 by updatedAt, read from the store", "of"}
	file := r.Collections(generated(n))
	for _, s := range stores {
		began := time.Now()
		r.Import(ctx, file, s.url)
		took := time.Since(began).Seconds()
		imports = append(imports, []string{s.name, fmt.Sprintf("%.1f", took), fmt.Sprintf("%.0f", float64(n)/took)})
		head = append(head, s.name+" p50 ms", "p99 ms")
		for i, p := range s.list(ctx, r, d, n, asks) {
			if len(rows) == i {
				rows = append(rows, figures.Row(p.name, p.total))
			}
			rows[i] = append(rows[i], fmt.Sprintf("%.2f", figures.Median(p.took)), fmt.Sprintf("%.2f", figures.Quantile(p.took, 0.99)))
		}
	}
	r.Table(fmt.Sprintf("Import of %d collections", n), []string{"store", "seconds", "collections/s"}, imports)
	r.Table("Collections", head, rows)
}

// list requests pages from a store.
func (s store) list(ctx context.Context, r *rig.Rig, d *devnet.Devnet, n, asks int) []pages {
	t := r.Replica(ctx, rig.Before(d, "--store", s.url, "--collections-auth", "none"))
	defer t.Stop()
	series := pagesOf(n)
	for i := range series {
		series[i].ask(ctx, t.URL, asks)
	}
	return series
}

// generated returns n collections, most with few assets and a few with very many. Their times are spread over two
// years. Many have the same time, like collections of one block.
func generated(n int) iter.Seq[collections.Collection] {
	const years = 2 * 365 * 24 * time.Hour
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	return func(yield func(collections.Collection) bool) {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		for range n {
			updated := time.Duration(r.Int64N(int64(years))).Truncate(time.Second)
			created := time.Duration(r.Int64N(int64(updated) + 1)).Truncate(time.Second)
			assets := int64(math.Min(math.Pow(1-r.Float64(), -1/1.1), 1e6)) // Pareto's law: half have one asset, a hundredth 66 and more
			licenses, disputes := int64(r.ExpFloat64()*float64(assets)), assets/100
			if !yield(collections.Collection{
				Address: fmt.Sprintf("0x%016x%016x%08x", r.Uint64(), r.Uint64(), r.Uint32()), AssetCount: assets, LicensesCount: licenses,
				RaisedDisputeCount: disputes, CancelledDisputeCount: disputes / 4, JudgedDisputeCount: disputes / 2, ResolvedDisputeCount: disputes / 3,
				CreatedAt: start.Add(created), UpdatedAt: start.Add(updated),
			}) {
				return
			}
		}
	}
}

// pages is a series of requests of one kind. No two are equal, so that each is read from the store.
type pages struct {
	name  string
	body  string // of a request; its verb stands for a number, counted up from first
	first int

	total int64     // number of collections that match the last request
	took  []float64 // milliseconds
}

// pagesOf returns the kinds of pages to measure in a store of the given size.
func pagesOf(collections int) []pages {
	const page = `{"orderBy":"updatedAt","pagination":{"limit":20,"offset":%d}}`
	return []pages{
		{name: "offset 0", body: page},
		{name: "offset 10,000", body: page, first: 10_000},
		{name: fmt.Sprint("offset ", collections/2), body: page, first: collections / 2},
		{name: "two assets and more", body: `{"where":{"minAssetCount":2,"maxAssetCount":%d}}`, first: 10_000_000},
	}
}

// ask sends one request after another.
func (p *pages) ask(ctx context.Context, url string, asks int) {
	one := clients.NewCrowd(rig.Host(url), 1)
	defer one.Close()
	rig.Check(one.SendAll(ctx, func() ([]byte, bool) {
		n := len(p.took)
		return clients.Request(http.MethodPost, "/api/v4/collections", fmt.Sprintf(p.body, p.first+n), "Content-Type: application/json"), n < asks
	}, p.note))
}

// note records a response, which must be a full page that was not cached.
func (p *pages) note(a clients.Response) error {
	p.took = append(p.took, figures.Milliseconds(a.Took))
	p.total = gjson.GetBytes(a.Body, "pagination.total").Int()
	if status := a.Header.Get("Cache-Status"); !strings.Contains(status, "fwd=uri-miss") {
		return fmt.Errorf("not read from the store: Cache-Status: %s", status)
	}
	if n := gjson.GetBytes(a.Body, "data.#").Int(); n != 20 {
		return fmt.Errorf("%d collections on the page, want 20", n)
	}
	return nil
}

// indexLatency delays every response of the execution client.
const indexLatency = 20 * time.Millisecond

// indexAll runs `tipcache index` for each store, from the first block of the chain.
func indexAll(ctx context.Context, r *rig.Rig, d *devnet.Devnet, stores []store) {
	var rows [][]string
	for _, s := range stores {
		rows = append(rows, s.index(ctx, r, d))
		r.Progress("index: %s", s.name)
	}
	r.Table(fmt.Sprintf("Indexing %d blocks, %v per request", d.EVM().Height(), indexLatency),
		[]string{"store", "seconds", "logs", "logs/s"}, rows)
	rig.Check(d.EVM().SetFault(devnet.Fault{}))
}

// indexed matches the program's last line.
var indexed = regexp.MustCompile(`(\d+) logs in this run`)

// index runs the indexer until the store has the whole chain.
func (s store) index(ctx context.Context, r *rig.Rig, d *devnet.Devnet) []string {
	began := time.Now()
	p := r.Start(ctx, "index-"+s.name, nil, r.Bin, "index", "--evm", d.EVMURL(), "--store", s.url, "--admin", rig.FreeAddr(), "--network", "aeneid", "--from", "1")
	p.Wait()
	took := time.Since(began).Seconds()
	said := indexed.FindSubmatch(rig.Must(os.ReadFile(p.Log)))
	if said == nil {
		rig.Check(errors.New("tipcache index did not print the number of logs"))
	}
	logs := rig.Must(strconv.ParseFloat(string(said[1]), 64))
	s.complete(ctx, d)
	return figures.Row(s.name, took, fmt.Sprintf("%.0f", logs), fmt.Sprintf("%.0f", logs/took))
}

// complete fails unless the store holds all collections of the chain.
func (s store) complete(ctx context.Context, d *devnet.Devnet) {
	stored := rig.Must(drivers.Open(ctx, s.url, collections.Options{}))
	defer stored.Close()
	want := int64(0)
	for range d.CollectionsAt(d.EVM().Height()) {
		want++
	}
	if got := rig.Must(stored.List(ctx, collections.Query{Limit: 1})).Total; got != want {
		rig.Check(fmt.Errorf("%s holds %d collections, want %d", s.name, got, want))
	}
}
