package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
)

// pageFormat is the one statement a page is read with, so that its items, its
// total and its generation belong to the same moment. The keys of a page come
// from an index alone; its rows are looked up only then, which is what keeps
// great offsets cheap. A page without items is one row without an address.
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

// foundFormat precedes it when addresses are given: they are at most
// MaxAddresses rows, looked up by key whatever else the query says.
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

// page reads a page.
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
	err := s.query(ctx, stmt.sql(), args, func(row *sql.Rows) error { return scanItem(row, &page) })
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

// A stamp is a time as the databases give it: a timestamp, the microseconds
// since 1970, or NULL.
type stamp struct{ time.Time }

// Scan implements sql.Scanner.
func (s *stamp) Scan(value any) error {
	switch value := value.(type) {
	case nil:
	case int64:
		s.Time = time.UnixMicro(value).UTC()
	case time.Time:
		s.Time = value.UTC()
	default:
		return fmt.Errorf("a time cannot be a %T", value)
	}
	return nil
}

// columns of the table collections.
const columns = `key, address, asset_count, licenses_count, raised_dispute_count, cancelled_dispute_count,
	judged_dispute_count, resolved_dispute_count, created_at, updated_at`
