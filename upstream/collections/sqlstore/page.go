package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/collections"
)

// pageFormat is the one statement a page is read with, so that its items, its total and its
// generation belong to the same moment. The keys come from an index alone, and only their rows are
// looked up, which keeps great offsets cheap. A page without items is one row without an address.
const pageFormat = `WITH %spage AS (
	SELECT key FROM %s WHERE %s ORDER BY %s, key LIMIT %d OFFSET %d)
SELECT s.generation, %s, COALESCE(c.address, ''),
	COALESCE(c.asset_count, 0), COALESCE(c.licenses_count, 0),
	COALESCE(c.raised_dispute_count, 0), COALESCE(c.cancelled_dispute_count, 0),
	COALESCE(c.judged_dispute_count, 0), COALESCE(c.resolved_dispute_count, 0),
	c.created_at, c.updated_at
FROM collections_state s LEFT JOIN (page JOIN collections c ON c.key = page.key) ON true
WHERE s.id = 1
ORDER BY c.%s, c.key`

// foundFormat precedes it when addresses are given: at most MaxAddresses rows, looked up by key.
const foundFormat = `found AS MATERIALIZED (
	SELECT key, asset_count, licenses_count, updated_at FROM collections WHERE key %s), `

// A statement is what a query needs to become SQL. Numbers are written into the
// text, where the planner sees them; strings never are.
type statement struct {
	collections.Query
	inKeys string // the condition that a key is in the list in parameter 1; "" when all addresses do
	index  string // SQLite: the index to find the page by; "" leaves it to the planner

	// total says how many match, if known, at the generation given.
	total, generation int64
	counted           bool
}

func (s statement) sql() string {
	found, table := "", "collections"
	if s.inKeys != "" {
		found, table = fmt.Sprintf(foundFormat, s.inKeys), "found"
	}
	from := table
	if s.index != "" {
		from += " INDEXED BY " + s.index
	}
	by, _ := order(s.Query)
	return fmt.Sprintf(pageFormat, found, from, where(s.Query), by, s.Limit, s.Offset, s.totalSQL(table), by)
}

// orders are the columns to order by, each with the name that its indexes have.
var orders = [...]struct{ column, index string }{
	collections.UpdatedAt:     {"updated_at", "updated"},
	collections.AssetCount:    {"asset_count", "assets"},
	collections.LicensesCount: {"licenses_count", "licenses"},
}

// order is the order of the query, and the index that has it.
func order(q collections.Query) (by, index string) {
	of := orders[q.OrderBy]
	if q.Desc {
		return of.column + " DESC", "collections_" + of.index + "_desc"
	}
	return of.column, "collections_" + of.index + "_asc"
}

// where filters by asset count.
func where(q collections.Query) string {
	conditions := []string{"true"}
	if q.MinAssets != nil {
		conditions = append(conditions, fmt.Sprintf("asset_count >= %d", *q.MinAssets))
	}
	if q.MaxAssets != nil {
		conditions = append(conditions, fmt.Sprintf("asset_count <= %d", *q.MaxAssets))
	}
	return strings.Join(conditions, " AND ")
}

// totalSQL is the number of all that match: kept, known, or counted.
func (s statement) totalSQL(table string) string {
	if s.inKeys == "" && !s.Ranged() {
		return "s.total"
	}
	count := fmt.Sprintf("(SELECT count(*) FROM %s WHERE %s)", table, where(s.Query))
	if !s.counted {
		return count
	}
	return fmt.Sprintf("CASE WHEN s.generation = %d THEN %d ELSE %s END", s.generation, s.total, count)
}

func (s *store) List(ctx context.Context, q collections.Query) (page collections.Page, err error) {
	err = s.read(ctx, func() error {
		page, err = s.page(ctx, q)
		return err
	})
	return page, err
}

func (s *store) page(ctx context.Context, q collections.Query) (collections.Page, error) {
	stmt, args := statement{Query: q}, s.planned
	ranged := len(q.Addresses) == 0 && q.Ranged()
	if len(q.Addresses) > 0 {
		stmt.inKeys, args = s.inList("value"), append(args[:len(args):len(args)], s.texts(q.Keys()))
	}
	if ranged {
		if err := s.plan(ctx, &stmt); err != nil {
			return collections.Page{}, err
		}
	}
	page := collections.Page{Items: []collections.Collection{}}
	err := query(ctx, s.readers, stmt.sql(), args, func(row *sql.Rows) error { return scanItem(row, &page) })
	if err == nil && ranged {
		s.totals.put(where(q), page.Generation, page.Total)
	}
	return page, err
}

// sortable is the greatest number of rows to look up and sort for one page.
// Above it enough of the walked index matches for walking to be quicker.
const sortable = 10_000

// plan finds out what is known of a range of asset counts. SQLite cannot guess how
// many collections it holds, so they are counted first, once per generation, and
// the count decides between walking the order and sorting the range.
func (s *store) plan(ctx context.Context, stmt *statement) error {
	stmt.generation, stmt.total, stmt.counted = s.totals.get(where(stmt.Query))
	if !s.hinted {
		return nil
	}
	if !stmt.counted {
		row := s.readers.QueryRowContext(ctx, "SELECT generation, "+stmt.totalSQL("collections")+" FROM collections_state")
		if err := row.Scan(&stmt.generation, &stmt.total); err != nil {
			return err
		}
		stmt.counted = true
	}
	_, stmt.index = order(stmt.Query)
	if stmt.OrderBy != collections.AssetCount && stmt.total <= sortable {
		stmt.index = "collections_assets_asc"
	}
	return nil
}

// scanItem appends a row of the answer to a statement to the page.
func scanItem(row *sql.Rows, page *collections.Page) error {
	var c collections.Collection
	var created, updated stamp
	err := row.Scan(&page.Generation, &page.Total, &c.Address, &c.AssetCount, &c.LicensesCount,
		&c.RaisedDisputeCount, &c.CancelledDisputeCount, &c.JudgedDisputeCount, &c.ResolvedDisputeCount, &created, &updated)
	if err == nil && c.Address != "" {
		c.CreatedAt, c.UpdatedAt = created.Time, updated.Time
		page.Items = append(page.Items, c)
	}
	return err
}

// maxTotals bounds the ranges remembered. Clients use few.
const maxTotals = 1000

// totals remembers how many collections a range of asset counts, given as the condition for it,
// held at one generation: the pages of one walk would otherwise read the whole range each.
type totals struct {
	mu         sync.Mutex
	generation int64
	counted    map[string]int64
}

// get returns the total of a range, and the generation for the caller to compare.
func (t *totals) get(condition string) (generation, total int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, ok = t.counted[condition]
	return t.generation, total, ok
}

func (t *totals) put(condition string, generation, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation < t.generation {
		return
	}
	if generation > t.generation || len(t.counted) >= maxTotals {
		t.generation, t.counted = generation, map[string]int64{}
	}
	t.counted[condition] = total
}
