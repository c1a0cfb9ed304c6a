package sqlstore

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tipcache/tipcache/upstream/collections"
)

// A dialect is the SQL in which the databases differ: pieces of statements, and
// whole statements, of which an empty one is left out.
type dialect struct {
	scripts    fs.FS  // the scripts of the schema, in the folder scriptsDir
	scriptsDir string // of this database

	begin      string // begins a transaction that writes
	lockSchema string // keeps other processes from migrating until the transaction ends
	lockRows   string // makes other imports and tallies wait, which otherwise might wait for rows crosswise
	setVersion string // sets the version of the schema, its verb

	schemaTimeout  time.Duration // in which the version of the schema is read
	tableExists    string        // tells whether there is a table of the name in parameter 1
	makeExpansions string        // makes the table of the expansions that were run, if there is none

	list  string              // a table of one column, value: the texts in parameter 1
	among string              // the condition that an expression is in the result of a query, its verb
	bytes string              // the bytes that an expression, its verb, has in hex
	texts func([]string) any  // the parameter of list
	time  func(time.Time) any // a time as a parameter

	rows       func(count int) string                                    // a table of columns and n: so many collections, which are the parameters
	pack       func(some []collections.Collection, n int64) (args []any) // the parameters of rows; n is the first one's, and counts on
	rowsAtOnce int                                                       // how many collections a statement takes

	planned []any // precedes the parameters of a page
	hinted  bool  // the planner is told which index has a range of asset counts

	beforeImport, afterImport, beforeTally string // outside transactions
	dropStaged                             string // drops the table of an import, and no other of its name
}

// sqliteNames names the columns of VALUES.
const sqliteNames = `column1 AS key, column2 AS address, column3 AS asset_count, column4 AS licenses_count,
	column5 AS raised_dispute_count, column6 AS cancelled_dispute_count, column7 AS judged_dispute_count,
	column8 AS resolved_dispute_count, column9 AS created_at, column10 AS updated_at, column11 AS n`

// sqliteDialect unpacks lists from a JSON array, several times faster than SQLite
// takes as many parameters. Of rows, which are wide, the parameters are faster.
var sqliteDialect = dialect{
	scripts:    schemaFiles,
	scriptsDir: "schema/sqlite",
	begin:      "BEGIN IMMEDIATE",
	setVersion: "PRAGMA user_version = %d",

	schemaTimeout: migrationTimeout, // a file may have to be recovered first
	tableExists:   "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = $1)",
	makeExpansions: `CREATE TABLE IF NOT EXISTS collections_expansions (
	name TEXT NOT NULL PRIMARY KEY, applied TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) STRICT`,

	list:  "json_each($1)",
	among: "IN (%s)",
	bytes: "unhex(%s)",
	texts: func(texts []string) any { return toJSON(texts) },
	time:  func(t time.Time) any { return t.UnixMicro() },

	rows: func(n int) string {
		return "(SELECT " + sqliteNames + " FROM (VALUES " + strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", n)[2:] + "))"
	},
	pack: func(some []collections.Collection, n int64) []any {
		args := make([]any, 0, 11*len(some))
		for i := range some {
			c := &some[i]
			args = append(args, c.Key(), c.Address, c.AssetCount, c.LicensesCount, c.RaisedDisputeCount, c.CancelledDisputeCount,
				c.JudgedDisputeCount, c.ResolvedDisputeCount, c.CreatedAt.UnixMicro(), c.UpdatedAt.UnixMicro(), n+int64(i))
		}
		return args
	},
	rowsAtOnce: 64,

	hinted: true,

	// Where SQLite keeps temporary tables, and what it needs to take a statement
	// back. The former are whole imports. The latter is of one statement, written in
	// the middle of every tally.
	beforeImport: "PRAGMA temp_store = FILE",
	beforeTally:  "PRAGMA temp_store = MEMORY",
	dropStaged:   "DROP TABLE IF EXISTS temp.staged",
	// The log has grown by what was imported. Its space is given back, unless a
	// reader needs it.
	afterImport: "PRAGMA wal_checkpoint(TRUNCATE)",
}

// toJSON encodes texts and numbers, which cannot fail.
func toJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// The advisory locks of PostgreSQL: numbers that all tipcaches of a database
// agree on.
const (
	migrationLock = 0x7469706361636865 // "tipcache"
	importLock    = migrationLock + 1
	leaderLock    = migrationLock + 2
)

const dropTemporary = "DROP TABLE IF EXISTS pg_temp.staged"

// postgresDialect unpacks one array per column.
var postgresDialect = dialect{
	scripts:    schemaFiles,
	scriptsDir: "schema/postgres",
	begin:      "BEGIN",
	lockSchema: fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrationLock),
	lockRows:   fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", importLock),
	setVersion: `CREATE TABLE IF NOT EXISTS collections_schema (version integer NOT NULL);
INSERT INTO collections_schema VALUES (%d)`,

	schemaTimeout: answerTimeout,
	// pg_class, since to_regclass may repeat what it found before another process migrated.
	tableExists: "SELECT EXISTS (SELECT FROM pg_class WHERE relname = $1 AND pg_table_is_visible(oid))",
	makeExpansions: `CREATE TABLE IF NOT EXISTS collections_expansions (
	name text PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())`,

	list:  "unnest($1::text[]) AS list (value)",
	among: "= ANY(ARRAY(%s))",
	bytes: "decode(%s, 'hex')",
	texts: func(texts []string) any { return texts },
	time:  func(t time.Time) any { return t },

	rows: func(int) string {
		return `unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
	$9::timestamptz[], $10::timestamptz[], $11::bigint[]) AS given (` + columns + `, n)`
	},
	pack: func(some []collections.Collection, n int64) []any {
		var keys, addresses []string
		var counts [7][]int64
		var created, updated []time.Time
		for i := range some {
			c := &some[i]
			keys, addresses = append(keys, c.Key()), append(addresses, c.Address)
			for j, count := range [...]int64{c.AssetCount, c.LicensesCount, c.RaisedDisputeCount, c.CancelledDisputeCount,
				c.JudgedDisputeCount, c.ResolvedDisputeCount, n + int64(i)} {
				counts[j] = append(counts[j], count)
			}
			created, updated = append(created, c.CreatedAt), append(updated, c.UpdatedAt)
		}
		return []any{keys, addresses, counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], created, updated, counts[6]}
	},

	rowsAtOnce: 4096,

	// A page is planned anew each time: a plan made for any offset is bad for most.
	planned: []any{pgx.QueryExecModeExec},

	// The connection of an import that was cancelled may be given back with its table.
	beforeImport: dropTemporary,
	dropStaged:   dropTemporary,

	// Pages are read from indexes alone, which takes a visibility map, and the
	// planner needs to know how asset counts are spread. Autovacuum would get
	// there, later.
	afterImport: "VACUUM (ANALYZE) collections",
}
