package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// database makes an SQLite file with SQL.
func database(t *testing.T, statements string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "c.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA journal_mode = WAL; " + statements); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckAnnouncesMigrations(t *testing.T) {
	check := func(path string) (string, error) {
		return runs(t, "check", "--connect", "--node", "none", "--collections-auth", "none", "--store", "sqlite:"+path)
	}
	path := database(t, "CREATE TABLE of_another_release (a); PRAGMA user_version = 2")
	out, err := check(path)
	if err != nil || !strings.Contains(out, "which serve will migrate: 0003_contracts") {
		t.Errorf("%v, %s", err, out)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("files beside the database: %v", left)
	}
	if out, err := check(database(t, "PRAGMA user_version = 999")); err == nil || !strings.Contains(out, "version 999") {
		t.Errorf("a schema of a later release: %v, %s", err, out)
	}
	current := filepath.Join(t.TempDir(), "c.db")
	if _, err := runs(t, "import", os.DevNull, "--store", "sqlite:"+current); err != nil {
		t.Fatal(err)
	}
	if out, err := check(current); err != nil || strings.Contains(out, "migrate") {
		t.Errorf("a schema that is up to date: %v, %s", err, out)
	}
}
