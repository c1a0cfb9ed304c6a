package collections_test

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A fixture is a store and the store with which its collections are written. They differ if the driver is read-only.
type fixture struct {
	store, writer *collections.Store
	generations   bool // pages have a generation
}

// testEachDriver runs a test of behaviour that all drivers have in common.
func testEachDriver(t *testing.T, test func(t *testing.T, f fixture)) {
	writable := func(url func(t testing.TB) string) func(t *testing.T) fixture {
		return func(t *testing.T) fixture {
			s := open(t, url(t), collections.Options{})
			return fixture{store: s, writer: s, generations: true}
		}
	}
	drivers := map[string]func(t *testing.T) fixture{
		"sqlite file":   writable(sqliteFile),
		"sqlite memory": writable(func(testing.TB) string { return "sqlite::memory:" }),
		"postgres":      writable(postgrestest.Schema),
		"http":          httpFixture,
	}
	for name, fixture := range drivers {
		t.Run(name, func(t *testing.T) { test(t, fixture(t)) })
	}
}

func sqliteFile(t testing.TB) string {
	return "sqlite:" + filepath.Join(t.TempDir(), "a name with ? and %41 and #.db")
}

// open opens a store with a timeout that suffices on a busy machine.
func open(t testing.TB, url string, o collections.Options) *collections.Store {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	s := expect.Value(drivers.Open(t.Context(), url, o))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	return s
}

func list(t *testing.T, s *collections.Store, q collections.Query) collections.Page {
	t.Helper()
	page, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatalf("List(%+v): %v", q, err)
	}
	return page
}

// withoutState returns a page without the state of the store.
func withoutState(p collections.Page) collections.Page {
	return collections.Page{Items: p.Items, Total: p.Total}
}

func load(t testing.TB, s *collections.Store, all []collections.Collection) {
	t.Helper()
	n, err := s.Import(t.Context(), each(all))
	if err != nil || n != len(all) {
		t.Fatalf("Import = %d, %v; want %d", n, err, len(all))
	}
}

func each(all []collections.Collection) iter.Seq2[collections.Collection, error] {
	return func(yield func(collections.Collection, error) bool) {
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// some returns n unsorted collections with many ties and with addresses in mixed case.
func some(n int) []collections.Collection {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	all := make([]collections.Collection, n)
	for i := range all {
		created := time.Date(2026, 1, 1, 0, 0, 0, 123456000, time.UTC)
		all[i] = collections.Collection{
			Address:            fmt.Sprintf("0x%016X%016x%08X", r.Uint64(), r.Uint64(), r.Uint32()),
			AssetCount:         r.Int64N(10),
			LicensesCount:      r.Int64N(3),
			RaisedDisputeCount: 4, CancelledDisputeCount: 1, JudgedDisputeCount: 2, ResolvedDisputeCount: int64(i),
			CreatedAt: created,
			UpdatedAt: created.Add(time.Duration(r.IntN(20)) * time.Microsecond),
		}
	}
	return all
}

func key(c collections.Collection) string { return strings.ToLower(c.Address) }

// model returns the page that every store must return for a query.
func model(all []collections.Collection, q collections.Query) collections.Page {
	items := slices.DeleteFunc(append([]collections.Collection{}, all...), func(c collections.Collection) bool {
		named := len(q.Addresses) == 0 || slices.ContainsFunc(q.Addresses, func(a string) bool { return strings.EqualFold(a, c.Address) })
		return !named || q.MinAssets != nil && c.AssetCount < *q.MinAssets || q.MaxAssets != nil && c.AssetCount > *q.MaxAssets
	})
	slices.SortFunc(items, func(a, b collections.Collection) int {
		order := map[collections.OrderBy]int{
			collections.UpdatedAt:     a.UpdatedAt.Compare(b.UpdatedAt),
			collections.AssetCount:    cmp.Compare(a.AssetCount, b.AssetCount),
			collections.LicensesCount: cmp.Compare(a.LicensesCount, b.LicensesCount),
		}[q.OrderBy]
		if q.Desc {
			order = -order
		}
		return cmp.Or(order, strings.Compare(key(a), key(b)))
	})
	from := min(q.Offset, len(items))
	to := min(from+cmp.Or(q.Limit, collections.DefaultLimit), len(items))
	return collections.Page{Items: items[from:to], Total: int64(len(items))}
}

func TestPagesAreFilteredAndOrdered(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(400)
		load(t, f.writer, all)
		r := rand.New(rand.NewPCG(3, 4))
		bound := func() *int64 {
			n := r.Int64N(14) - 2
			return map[bool]*int64{true: &n}[n >= 0]
		}
		for range 80 {
			q := collections.Query{
				OrderBy: collections.OrderBy(r.IntN(3)), Desc: r.IntN(2) == 0,
				Limit: r.IntN(201), Offset: r.IntN(500), MinAssets: bound(), MaxAssets: bound(),
			}
			if r.IntN(3) == 0 {
				q.Offset /= 50
				for _, i := range r.Perm(len(all))[:1+r.IntN(199)] {
					q.Addresses = append(q.Addresses, all[i].Address)
				}
			}
			want := model(all, q)
			expect.NoDiff(t, withoutState(list(t, f.store, q)), want, "page of %+v", q)
		}
	})
}

func TestWalkReturnsEveryCollectionOnce(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(100)
		load(t, f.writer, all)
		for orderBy := range collections.LicensesCount + 1 {
			for _, desc := range []bool{false, true} {
				seen := map[string]int{}
				for offset := 0; offset < 100; offset += 7 {
					page := list(t, f.store, collections.Query{OrderBy: orderBy, Desc: desc, Limit: 7, Offset: offset})
					for _, c := range page.Items {
						seen[c.Address]++
					}
				}
				for _, c := range all {
					expect.Equal(t, seen[c.Address], 1, "order %d, desc %v: occurrences of %s", orderBy, desc, c.Address)
				}
			}
		}
	})
}

func TestAddressesMatchInAnyCaseAndAreReturnedAsStored(t *testing.T) {
	testEachDriver(t, func(t *testing.T, f fixture) {
		const stored = "0xABCDEFabcdef0000000000000000000000000001"
		c := some(1)[0]
		c.Address = stored
		load(t, f.writer, []collections.Collection{c})
		for name, test := range map[string]struct {
			addresses []string
			want      int64
		}{
			"as stored":           {[]string{stored}, 1},
			"lower case":          {[]string{strings.ToLower(stored)}, 1},
			"upper case":          {[]string{"0x" + strings.ToUpper(stored[2:])}, 1},
			"repeated":            {[]string{stored, strings.ToLower(stored)}, 1},
			"unknown":             {[]string{"0x0000000000000000000000000000000000000002"}, 0},
			"one of two is known": {[]string{"0x0000000000000000000000000000000000000002", stored}, 1},
		} {
			t.Run(name, func(t *testing.T) {
				page := list(t, f.store, collections.Query{Addresses: test.addresses})
				if page.Items == nil || page.Total != test.want || int64(len(page.Items)) != test.want {
					t.Fatalf("page = %+v, want total %d", page, test.want)
				}
				if test.want == 1 {
					expect.Equal(t, page.Items[0].Address, stored, "address")
				}
			})
		}
	})
}

func TestEmptyStoreReturnsEmptyPages(t *testing.T) {
	testEachDriver(t, func(t *testing.T, f fixture) {
		one := int64(1)
		for _, q := range []collections.Query{{}, {Desc: true, Offset: 1 << 40}, {MinAssets: &one}} {
			page := list(t, f.store, q)
			if page.Items == nil || len(page.Items) != 0 || page.Total != 0 {
				t.Errorf("page of %+v = %+v, want an empty list", q, page)
			}
			expect.Equal(t, page.Generation > 0 && page.Revision != "", f.generations, "whether the page has a generation and a revision")
		}
	})
}
