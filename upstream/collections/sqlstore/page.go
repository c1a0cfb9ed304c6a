package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/collections"
)

// pageFormat reads a page in one statement, so that its items, its total and the state of the store are consistent. It reads the
// keys from an index alone and then looks up only the rows of the page, which keeps large offsets cheap. An empty page is one
// row without an address.
const pageFormat = `WITH %spage AS (
	SELECT key FROM %s WHERE %s ORDER BY %s, key LIMIT %d OFFSET %d)
SELECT s.generation, s.revision, COALESCE(i.block, 0), %s, COALESCE(c.address, ''),
	COALESCE(c.asset_count, 0), COALESCE(c.licenses_count, 0),
	COALESCE(c.raised_dispute_count, 0), COALESCE(c.cancelled_dispute_count, 0),
	COALESCE(c.judged_dispute_count, 0), COALESCE(c.resolved_dispute_count, 0),
	c.created_at, c.updated_at
FROM collections_state s LEFT JOIN index_cursor i ON true LEFT JOIN (page JOIN collections c ON c.key = page.key) ON true
WHERE s.id = 1
ORDER BY c.%s, c.key`

// foundFormat precedes pageFormat if addresses are given: at most as many rows as addresses, looked up by key.
const foundFormat = `found AS MATERIALIZED (
	SELECT key, asset_count, licenses_count, updated_at FROM collections WHERE key %s), `

// A statement is a query with the data for its SQL. Numbers are part of the text, so that the planner knows them. Strings
// never are.
type statement struct {
	collections.Query
	inKeys string // the condition that a key is in the list in parameter 1; "" for all addresses
	index  string // SQLite: the index to use; "" lets the planner choose

	// total is the number of matches at revision, if it is known.
	total    int64
	revision string
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
	if s.revision == "" {
		return count
	}
	return fmt.Sprintf("CASE WHEN s.revision = $1 THEN %d ELSE %s END", s.total, count)
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
		if stmt.revision != "" {
			args = append(args[:len(args):len(args)], stmt.revision)
		}
	}
	page := collections.Page{Items: []collections.Collection{}}
	err := s.query(ctx, stmt.sql(), args, func(row *sql.Rows) error { return scanItem(row, &page) })
	if err == nil && ranged {
		s.totals.put(where(q), page.Revision, page.Total)
	}
	return page, err
}

// sortable is the maximum number of rows to look up and sort for one page. With more matches, walking the index of the order
// is faster.
const sortable = 10_000

// plan sets the total of a range of asset counts, if known, and the index. SQLite cannot estimate the number of matches, so
// plan counts them once per revision. The count decides between walking the order and sorting the range.
func (s *store) plan(ctx context.Context, stmt *statement) error {
	stmt.revision, stmt.total = s.totals.get(where(stmt.Query))
	if !s.hinted {
		return nil
	}
	if stmt.revision == "" {
		row := s.readers.QueryRowContext(ctx, "SELECT revision, "+stmt.totalSQL("collections")+" FROM collections_state")
		if err := row.Scan(&stmt.revision, &stmt.total); err != nil {
			return err
		}
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
	err := row.Scan(&page.Generation, &page.Revision, &page.Block, &page.Total, &c.Address, &c.AssetCount, &c.LicensesCount,
		&c.RaisedDisputeCount, &c.CancelledDisputeCount, &c.JudgedDisputeCount, &c.ResolvedDisputeCount, &created, &updated)
	if err == nil && c.Address != "" {
		c.CreatedAt, c.UpdatedAt = created.Time, updated.Time
		page.Items = append(page.Items, c)
	}
	return err
}

// maxTotals is the maximum number of cached ranges. Clients use few.
const maxTotals = 1000

// totals caches the number of collections in ranges of asset counts at one revision, by condition. Without it, every page
// of a listing would count the whole range.
type totals struct {
	mu       sync.Mutex
	revision string
	counted  map[string]int64
}

// get returns the total of a range and its revision, which the caller must compare. An empty revision means unknown.
func (t *totals) get(condition string) (revision string, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total, ok := t.counted[condition]
	if !ok {
		return "", 0
	}
	return t.revision, total
}

func (t *totals) put(condition, revision string, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if revision != t.revision || len(t.counted) >= maxTotals {
		t.revision, t.counted = revision, map[string]int64{}
	}
	t.counted[condition] = total
}
