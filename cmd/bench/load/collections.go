package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// pageGoal is what the p99 of the pages at small offsets should be below.
const pageGoal = 50 * time.Millisecond

// listed is a store and what was measured of it.
type listed struct {
	name, url string
	importing time.Duration
	series    []pages
}

// Collections measures a large collection store.
func Collections(ctx context.Context, r *rig.Rig) error {
	collections, asks := 1_000_000, 200
	if r.Short {
		collections, asks = 50_000, 20
	}
	server, err := r.Postgres(ctx)
	if err != nil {
		return err
	}
	d, err := r.Chain(rig.Still)
	if err != nil {
		return err
	}
	stores := []*listed{{name: "SQLite", url: "sqlite:" + filepath.Join(r.Dir, "collections.db")}, {name: "PostgreSQL", url: server}}
	for _, s := range stores {
		s.series = pagesOf(collections, asks)
		if err := s.list(ctx, r, d, collections); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	reportCollections(r, collections, stores)
	return nil
}

// list fills a store and asks for its pages.
func (s *listed) list(ctx context.Context, r *rig.Rig, d *devnet.Devnet, collections int) (err error) {
	if s.importing, err = importCollections(ctx, r, s.url, collections); err != nil {
		return err
	}
	t, err := r.Replica(ctx, rig.Before(d, "--store", s.url, "--collections-auth", "none"))
	if err != nil {
		return err
	}
	defer t.Stop()
	for i := range s.series {
		if err := s.series[i].ask(ctx, t.URL); err != nil {
			return fmt.Errorf("%s: %w", s.series[i].name, err)
		}
	}
	return nil
}

func reportCollections(r *rig.Rig, collections int, stores []*listed) {
	var imports, rows [][]string
	head := []string{"pages of 20, read from the store", "of"}
	for _, s := range stores {
		imports = append(imports, []string{s.name, fmt.Sprintf("%.1f", s.importing.Seconds()), fmt.Sprintf("%.0f", float64(collections)/s.importing.Seconds())})
		head = append(head, s.name+" p50 ms", "p99 ms")
	}
	for i, p := range stores[0].series {
		row := figures.Row(p.name, p.total)
		for _, s := range stores {
			took := s.series[i].took
			row = append(row, fmt.Sprintf("%.2f", figures.Median(took)), fmt.Sprintf("%.2f", figures.Quantile(took, 0.99)))
		}
		rows = append(rows, row)
	}
	r.Table(fmt.Sprintf("Import of %d collections", collections), []string{"store", "seconds", "collections/s"}, imports)
	r.Table("Collections", head, rows)
	for _, s := range stores {
		worst, word := 0.0, "met"
		for _, p := range s.series {
			if p.goal {
				worst = max(worst, figures.Quantile(p.took, 0.99))
			}
		}
		if worst > figures.Milliseconds(pageGoal) {
			word = "missed"
		}
		r.Note("%s: the goal of a p99 below %v at small offsets is %s, the worst is %.2f ms.", s.name, pageGoal, word, worst)
	}
}

// importCollections puts n collections into a store, and says how long that took.
func importCollections(ctx context.Context, r *rig.Rig, store string, n int) (time.Duration, error) {
	file := filepath.Join(r.Dir, "collections.jsonl")
	if err := writeCollections(file, n); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err := rig.Output(ctx, "", r.Bin, "import", "--store", store, file)
	return time.Since(began), err
}

// writeCollections writes a file for `tipcache import`: n collections with few
// assets mostly and a great many seldom, updated at seconds spread over two
// years, as blocks are: many share one.
func writeCollections(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		writeCollection(w, random)
	}
	return errors.Join(w.Flush(), f.Close())
}

func writeCollection(w io.Writer, r *rand.Rand) {
	const years = 2 * 365 * 24 * time.Hour
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	updated := time.Duration(r.Int64N(int64(years))).Truncate(time.Second)
	created := time.Duration(r.Int64N(int64(updated) + 1)).Truncate(time.Second)
	assets := int(math.Min(math.Pow(1-r.Float64(), -1/1.1), 1e6)) // Pareto's law: half have one, a hundredth 66 and more
	licenses, disputes := int(r.ExpFloat64()*float64(assets)), assets/100
	fmt.Fprintf(w, `{"collectionAddress":"0x%016x%016x%08x","assetCount":%d,"licensesCount":%d,`+
		`"raisedDisputeCount":%d,"cancelledDisputeCount":%d,"judgedDisputeCount":%d,"resolvedDisputeCount":%d,"createdAt":%q,"updatedAt":%q}`+"\n",
		r.Uint64(), r.Uint64(), r.Uint32(), assets, licenses, disputes, disputes/4, disputes/2, disputes/3,
		start.Add(created).Format(time.RFC3339), start.Add(updated).Format(time.RFC3339)) // errors are the writer's, told by Flush
}

// pages is a row of requests of one kind, no two of them alike, so that each is
// read from the store.
type pages struct {
	name string
	goal bool // pageGoal is for it
	asks int
	body func(i int) string // of the i-th request

	total int64     // of the collections that the last page is one of
	took  []float64 // milliseconds
}

// pagesOf are the kinds of pages measured of a store of so many collections.
func pagesOf(collections, asks int) []pages {
	var all []pages
	for _, column := range []string{"updatedAt", "assetCount", "licensesCount"} {
		for _, offset := range []int{0, 10_000, collections / 2} {
			all = append(all, pages{
				name: fmt.Sprintf("by %s from %d on", column, offset), goal: offset <= 10_000, asks: asks,
				body: func(i int) string {
					return fmt.Sprintf(`{"orderBy":%q,"pagination":{"limit":20,"offset":%d}}`, column, offset+i)
				},
			})
		}
	}
	for _, least := range []int{2, 20, 200} {
		all = append(all, pages{
			name: fmt.Sprintf("by updatedAt, %d assets and more", least), asks: asks,
			body: func(i int) string {
				return fmt.Sprintf(`{"where":{"minAssetCount":%d,"maxAssetCount":%d}}`, least, 10_000_000+i)
			},
		})
	}
	return all
}

// ask sends one request after another.
func (p *pages) ask(ctx context.Context, url string) error {
	one := clients.NewCrowd(rig.Host(url), 1)
	defer one.Close()
	return one.Ask(ctx, func(int) ([]byte, bool) { n := len(p.took); return post(p.body(n)), n < p.asks }, p.note)
}

// note takes a page, which must be full and not from the cache.
func (p *pages) note(a clients.Response) error {
	p.took = append(p.took, figures.Milliseconds(a.Took))
	p.total = gjson.GetBytes(a.Body, "pagination.total").Int()
	if status := a.Header.Get("Cache-Status"); !strings.Contains(status, "fwd=uri-miss") {
		return fmt.Errorf("not read from the store: Cache-Status: %s", status)
	}
	if n := gjson.GetBytes(a.Body, "data.#").Int(); n != 20 {
		return fmt.Errorf("%d collections on the page, not 20", n)
	}
	return nil
}
