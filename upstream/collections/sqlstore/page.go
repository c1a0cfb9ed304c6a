package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/collections"
)

// pageFormat reads a page in one statement, so that its items, its total and its generation are consistent. It reads the
// keys from an index alone and then looks up only the rows of the page, which keeps large offsets cheap. An empty page is one
// row without an address.
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

// foundFormat precedes pageFormat if addresses are given: at most MaxAddresses rows, looked up by key.
const foundFormat = `found AS MATERIALIZED (
	SELECT key, asset_count, licenses_count, updated_at FROM collections WHERE key %s), `

// A statement is a query with the data for its SQL. Numbers are part of the text, so that the planner knows them. Strings
// never are.
type statement struct {
	collections.Query
	inKeys string // the condition that a key is in the list in parameter 1; "" for all addresses
	index  string // SQLite: the index to use; "" lets the planner choose

	// total is the number of matches at generation, if counted.
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

// orders are the columns to order by with the names in their indexes.
var orders = [...]struct{ column, index string }{
	collections.UpdatedAt:     {"updated_at", "updated"},
	collections.AssetCount:    {"asset_count", "assets"},
	collections.LicensesCount: {"licenses_count", "licenses"},
}

// order returns the ORDER BY expression of a query and its index.
func order(q collections.Query) (by, index string) {
	o := orders[q.OrderBy]
	if q.Desc {
		return o.column + " DESC", "collections_" + o.index + "_desc"
	}
	return o.column, "collections_" + o.index + "_asc"
}

// where returns the condition on the asset count.
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

// totalSQL returns the expression for the number of matches: stored, known, or counted.
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
		keys := make([][]string, len(q.Addresses))
		for i, address := range q.Addresses {
			keys[i] = []string{strings.ToLower(address)}
		}
		stmt.inKeys, args = s.inList("%s"), append(args[:len(args):len(args)], encodeList(keys))
	}
	if ranged {
		if err := s.plan(ctx, &stmt); err != nil {
			return collections.Page{}, err
		}
	}
	page := collections.Page{Items: []collections.Collection{}}
	err := s.query(ctx, stmt.sql(), args, func(row *sql.Rows) error { return scanItem(row, &page) })
	if err == nil && ranged {
		s.totals.put(where(q), page.Generation, page.Total)
	}
	return page, err
}

// sortable is the maximum number of rows to look up and sort for one page. With more matches, walking the index of the order
// is faster.
const sortable = 10_000

// plan sets the total of a range of asset counts, if known, and the index. SQLite cannot estimate the number of matches, so
// plan counts them once per generation. The count decides between walking the order and sorting the range.
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

// maxTotals is the maximum number of cached ranges. Clients use few.
const maxTotals = 1000

// totals caches the number of collections in ranges of asset counts at one generation, by condition. Without it, every page
// of a listing would count the whole range.
type totals struct {
	mu         sync.Mutex
	generation int64
	counted    map[string]int64
}

// get returns the total of a range and its generation, which the caller must compare.
func (t *totals) get(condition string) (generation, total int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, ok = t.counted[condition]
	return t.generation, total, ok
}

func (t *totals) put(condition string, generation, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// After a failover to a standby that lacks transactions, generations occur again with other rows.
	if generation != t.generation || len(t.counted) >= maxTotals {
		t.generation, t.counted = generation, map[string]int64{}
	}
	t.counted[condition] = total
}
