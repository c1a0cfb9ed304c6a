package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
)

// A release is a program with scripts of its own. Each opens the database, does what
// the test says with it, and ends.
type release func(t *testing.T, scripts fs.FS, log *bytes.Buffer, use func(context.Context, *sql.Conn)) error

func opened(t *testing.T, s *store, use func(context.Context, *sql.Conn)) error {
	t.Helper()
	defer s.Close()
	if err := s.ready(t.Context()); err != nil {
		return err
	}
	conn, err := s.writer.Conn(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	use(t.Context(), conn)
	return nil
}

func options(log *bytes.Buffer) collections.Options {
	return collections.Options{Timeout: time.Minute, Connections: 2, Logger: slog.New(slog.NewTextHandler(log, nil))}
}

// databases are fresh ones that releases open one after another.
func databases(t *testing.T, test func(t *testing.T, open release)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.db")
		test(t, func(t *testing.T, scripts fs.FS, log *bytes.Buffer, use func(context.Context, *sql.Conn)) error {
			d := sqliteDialect
			d.scripts, d.scriptsDir = scripts, "."
			s, err := openSQLite(t.Context(), path, d, options(log))
			if err != nil {
				return err
			}
			return opened(t, s, use)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := postgrestest.Schema(t)
		test(t, func(t *testing.T, scripts fs.FS, log *bytes.Buffer, use func(context.Context, *sql.Conn)) error {
			s, err := connectPostgres(t.Context(), url, options(log))
			if err != nil {
				return err
			}
			s.scripts, s.scriptsDir = scripts, "."
			return opened(t, s, use)
		})
	})
}

// scripts makes a folder of SQL that both databases understand.
func scripts(of ...string) fstest.MapFS {
	all := fstest.MapFS{}
	for _, name := range of {
		_, table, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(name, ".sql"), ".expand"), "_")
		text := "CREATE TABLE " + table + " (a integer)"
		if old, ok := strings.CutPrefix(table, "no_"); ok {
			text = "DROP TABLE " + old
		}
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// beforeExpansions is how the releases that knew no expansions judge a database:
// the version is the number of scripts run, and a greater one is refused.
func beforeExpansions(ctx context.Context, t *testing.T, w *sql.Conn, knows int) (accepted bool) {
	t.Helper()
	var version int
	err := w.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	if err != nil {
		err = w.QueryRowContext(ctx, "SELECT COALESCE(max(version), 0) FROM collections_schema").Scan(&version)
	}
	if err != nil {
		t.Fatal(err)
	}
	return version == knows
}

func TestAnExpansionIsRunOnceAndLetsTheReleaseBeforeIn(t *testing.T) {
	databases(t, func(t *testing.T, open release) {
		before, after := scripts("0001_one.sql"), scripts("0001_one.sql", "0002_two.expand.sql")
		var log bytes.Buffer
		for _, release := range []fs.FS{before, after, before, after} {
			if err := open(t, release, &log, func(ctx context.Context, w *sql.Conn) {
				if !beforeExpansions(ctx, t, w, 1) {
					t.Error("a release that knows one script refuses the database")
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(log.String(), `msg="store migrated"`); n != 2 || !strings.Contains(log.String(), "0002_two") {
			t.Errorf("%d migrations were logged, want 2, one of them 0002_two:\n%s", n, &log)
		}
		if strings.Count(log.String(), `msg="migrating the store"`) != 2 {
			t.Errorf("the beginning of each migration is not in the log:\n%s", &log)
		}
	})
}

func TestAContractionKeepsEarlierReleasesOutUntilTheyKnowIt(t *testing.T) {
	databases(t, func(t *testing.T, open release) {
		first := scripts("0001_one.sql", "0002_two.expand.sql")
		second := scripts("0001_one.sql", "0002_two.expand.sql", "0003_no_one.sql", "0004_four.expand.sql")
		third := scripts("0001_one.sql", "0002_two.expand.sql", "0003_no_one.sql", "0004_four.expand.sql", "0005_five.expand.sql")
		for i, step := range []struct {
			release fs.FS
			refused bool
		}{{first, false}, {second, false}, {first, true}, {third, false}, {second, false}, {first, true}} {
			err := open(t, step.release, &bytes.Buffer{}, func(ctx context.Context, w *sql.Conn) {
				if i > 0 && beforeExpansions(ctx, t, w, 1) {
					t.Error("a release that knows no expansions is let in behind a contraction")
				}
			})
			if errors.Is(err, collections.ErrNewerSchema) != step.refused || err != nil && !step.refused {
				t.Errorf("step %d: error = %v, want refused: %t", i, err, step.refused)
			}
		}
	})
}

func TestAScriptThatFailsLeavesTheSchemaAsItWas(t *testing.T) {
	databases(t, func(t *testing.T, open release) {
		broken := scripts("0001_one.sql", "0002_two.expand.sql", "0003_no_such.expand.sql")
		err := open(t, broken, &bytes.Buffer{}, func(context.Context, *sql.Conn) {})
		if err == nil || !strings.Contains(err.Error(), "0003_no_such") {
			t.Errorf("error = %v, want one that names the script", err)
		}
		if err := open(t, scripts("0001_one.sql", "0002_two.expand.sql"), &bytes.Buffer{}, func(context.Context, *sql.Conn) {}); err != nil {
			t.Errorf("after the failure: %v", err)
		}
	})
}

// The number of a script is its own for ever, and both databases have the same ones.
func TestScriptsHaveNumbersInARow(t *testing.T) {
	var of [2][]string
	for i, dir := range []string{sqliteDialect.scriptsDir, postgresDialect.scriptsDir} {
		all, err := readScripts(schemaFiles, dir)
		if err != nil {
			t.Fatal(err)
		}
		for n, m := range all {
			if m.number != n+1 {
				t.Errorf("%s: script %d is called %s", dir, n+1, m.name)
			}
		}
		of[i] = names(all)
	}
	if !slices.Equal(of[0], of[1]) {
		t.Errorf("SQLite has %v, PostgreSQL has %v", of[0], of[1])
	}
}
