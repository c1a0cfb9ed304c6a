package load

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

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
	c := &clients.Conn{Addr: rig.Host(url)}
	defer c.Close()
	for i := range p.asks {
		if err := p.page(ctx, c, p.body(i)); err != nil {
			return fmt.Errorf("%s: %w", p.body(i), err)
		}
	}
	return nil
}

const collectionsPath = "/api/v4/collections"

// page asks for one page, which must be full and not from the cache.
func (p *pages) page(ctx context.Context, c *clients.Conn, body string) error {
	a, err := c.Do(ctx, clients.Request(http.MethodPost, collectionsPath, body, "Content-Type: application/json"))
	if err != nil {
		return err
	}
	p.took = append(p.took, figures.Milliseconds(a.Took))
	if a.Status != http.StatusOK {
		return fmt.Errorf("status %d: %.200s", a.Status, a.Body)
	}
	if status := a.Header.Get("Cache-Status"); !strings.Contains(status, "fwd=uri-miss") {
		return fmt.Errorf("not read from the store: Cache-Status: %s", status)
	}
	if n := gjson.GetBytes(a.Body, "data.#").Int(); n != 20 {
		return fmt.Errorf("%d collections on the page, not 20", n)
	}
	p.total = gjson.GetBytes(a.Body, "pagination.total").Int()
	return nil
}
