package sqlstore

import (
	"fmt"
	"math"
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
	inKeys string // SQL for "is one of the keys in parameter 1"; "" when all addresses do
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
	from, by := table, order(s.Query)
	if s.index != "" {
		from += " INDEXED BY " + s.index
	}
	return fmt.Sprintf(pageFormat, found, from, where(s.Query), by, s.Limit, s.Offset, s.totalSQL(table), by)
}

func order(q collections.Query) string {
	column := [...]string{collections.UpdatedAt: "updated_at", collections.AssetCount: "asset_count", collections.LicensesCount: "licenses_count"}[q.OrderBy]
	if q.Desc {
		return column + " DESC"
	}
	return column
}

// orderIndex names the index whose order is that of the query.
func orderIndex(q collections.Query) string {
	name := [...]string{collections.UpdatedAt: "updated", collections.AssetCount: "assets", collections.LicensesCount: "licenses"}[q.OrderBy]
	if q.Desc {
		return "collections_" + name + "_desc"
	}
	return "collections_" + name + "_asc"
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

// rangeOf is the range between the bounds.
func rangeOf(q collections.Query) assetRange {
	r := assetRange{0, math.MaxInt64}
	if q.MinAssets != nil {
		r.min = *q.MinAssets
	}
	if q.MaxAssets != nil {
		r.max = *q.MaxAssets
	}
	return r
}

// rows are those of database/sql and of pgx.
type rows interface {
	Next() bool
	Scan(...any) error
	Err() error
}

// scanPage reads the answer to a statement.
func scanPage(rows rows) (collections.Page, error) {
	page := collections.Page{Items: []collections.Collection{}}
	for rows.Next() {
		var c collections.Collection
		var created, updated stamp
		if err := rows.Scan(&page.Generation, &page.Total, &c.Address, &c.AssetCount, &c.LicensesCount,
			&c.RaisedDisputeCount, &c.CancelledDisputeCount, &c.JudgedDisputeCount, &c.ResolvedDisputeCount,
			&created, &updated); err != nil {
			return collections.Page{}, err
		}
		if c.Address != "" {
			c.CreatedAt, c.UpdatedAt = created.Time, updated.Time
			page.Items = append(page.Items, c)
		}
	}
	return page, rows.Err()
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

// columns of the table collections, and of staged, in the order of staged rows.
const columns = `key, address, asset_count, licenses_count, raised_dispute_count, cancelled_dispute_count,
	judged_dispute_count, resolved_dispute_count, created_at, updated_at`

// upsertFormat merges staged collections into the table, given a SELECT of
// each key once. What a row already says is not written again, so that an
// import without news changes nothing, the generation included.
const upsertFormat = `INSERT INTO collections AS old (` + columns + `) %s
ON CONFLICT (key) DO UPDATE SET address = excluded.address,
	asset_count = excluded.asset_count, licenses_count = excluded.licenses_count,
	raised_dispute_count = excluded.raised_dispute_count, cancelled_dispute_count = excluded.cancelled_dispute_count,
	judged_dispute_count = excluded.judged_dispute_count, resolved_dispute_count = excluded.resolved_dispute_count,
	created_at = excluded.created_at, updated_at = excluded.updated_at
WHERE (old.address, old.asset_count, old.licenses_count, old.raised_dispute_count, old.cancelled_dispute_count,
	old.judged_dispute_count, old.resolved_dispute_count, old.created_at, old.updated_at)
	<> (excluded.address, excluded.asset_count, excluded.licenses_count, excluded.raised_dispute_count,
	excluded.cancelled_dispute_count, excluded.judged_dispute_count, excluded.resolved_dispute_count,
	excluded.created_at, excluded.updated_at)`
