package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// expectSameRows compares all rows that two indexers wrote.
func expectSameRows(t *testing.T, uninterrupted, url string) {
	t.Helper()
	want, got := readTables(t, uninterrupted), readTables(t, url)
	for table, rows := range want {
		if len(rows) == 0 {
			t.Errorf("%s is empty", table)
		}
	}
	expect.NoDiff(t, got, want, "rows")
}

// readTables reads the tables that an indexer writes.
func readTables(t *testing.T, url string) map[string]map[string]bool {
	t.Helper()
	driver, source := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", path
	}
	db := expect.Value(sql.Open(driver, source))(t)
	defer db.Close()
	tables := map[string]map[string]bool{}
	for table, columns := range map[string]string{
		"collections": "*", "index_ips": "*", "index_disputes": "*", "index_cursor": "*", "collections_state": "total",
	} {
		rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s FROM %s", columns, table))
		expect.NoError(t, err)
		tables[table] = readRows(t, rows)
	}
	return tables
}

func readRows(t *testing.T, rows *sql.Rows) map[string]bool {
	t.Helper()
	defer rows.Close()
	all := map[string]bool{}
	columns := expect.Value(rows.Columns())(t)
	for rows.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		expect.NoError(t, rows.Scan(to...))
		all[fmt.Sprintf("%x", values)] = true
	}
	expect.NoError(t, rows.Err())
	return all
}

// indexAll indexes to the head in this process.
func indexAll(t *testing.T, d *devnet.Devnet, url string) {
	t.Helper()
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
}

func sqliteURL(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "c.db") }

func postgresURL(t *testing.T) string { return postgrestest.Schema(t) }
