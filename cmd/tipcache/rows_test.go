package main

import (
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// expectSameRows compares all that two indexers wrote.
func expectSameRows(t *testing.T, undisturbed, url string) {
	t.Helper()
	want, got := rowsOf(t, undisturbed), rowsOf(t, url)
	for table := range want {
		if len(want[table]) == 0 {
			t.Errorf("%s is empty", table)
		}
		for row := range want[table] {
			if !got[table][row] {
				t.Errorf("%s lacks %s", table, row)
			}
		}
		for row := range got[table] {
			if !want[table][row] {
				t.Errorf("%s should not have %s", table, row)
			}
		}
	}
}

// rowsOf reads all that an indexer writes, by table.
func rowsOf(t *testing.T, url string) map[string]map[string]bool {
	t.Helper()
	driver, source := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", path
	}
	db := expect.Value(sql.Open(driver, source))(t)
	defer db.Close()
	tables := map[string]map[string]bool{}
	for table, what := range map[string]string{
		"collections": "*", "index_ips": "*", "index_disputes": "*", "index_cursor": "*", "collections_state": "total",
	} {
		rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s FROM %s", what, table))
		expect.NoError(t, err)
		tables[table] = textOf(t, rows)
	}
	return tables
}

func textOf(t *testing.T, rows *sql.Rows) map[string]bool {
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

// indexAll indexes to the head, in this process and in peace.
func indexAll(t *testing.T, d *devnet.Devnet, url string) {
	t.Helper()
	args := []string{"index", "--evm", d.EVMURL(), "--network", "aeneid", "--store", url}
	expect.NoError(t, run(t.Context(), args, streams{io.Discard, io.Discard}))
}

func sqliteURL(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "c.db") }

func postgresURL(t *testing.T) string { return postgrestest.Schema(t) }
