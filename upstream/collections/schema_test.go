package collections_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/collections/sqlstore"
	"github.com/tipcache/tipcache/upstream/expect"
)

// database is an empty database in which a test executes statements.
type database struct {
	url     string
	execute func(t *testing.T, statement string)
	version string // format of the statement that sets the version of the schema
	clear   string // statement that deletes all collections
}

func testEachDatabase(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.db")
		test(t, database{"sqlite:" + path, func(t *testing.T, statement string) { run(t, connect(t, path), statement) }, "PRAGMA user_version = %d", "DELETE FROM collections"})
	})
	t.Run("postgres", func(t *testing.T) {
		url := postgrestest.Schema(t)
		test(t, database{url, func(t *testing.T, statement string) { postgrestest.Execute(t, url, statement) }, "UPDATE collections_schema SET version = %d", "TRUNCATE collections"})
	})
}

// schemaVersion is the version of the schema that this program creates.
const schemaVersion = 6

// During an upgrade, the first replica of the next version adds to the schema that the others use.
func TestStoreOfNextSchemaVersionCanBeUsed(t *testing.T) {
	t.Parallel()
	testEachDatabase(t, func(t *testing.T, d database) {
		running := open(t, d.url, collections.Options{})
		load(t, running, some(3))
		for _, table := range []string{"collections", "collections_state", "index_cursor", "index_ips", "index_disputes", "index_steps"} {
			d.execute(t, "ALTER TABLE "+table+" ADD COLUMN added integer NOT NULL DEFAULT 7")
		}
		d.execute(t, fmt.Sprintf(d.version, schemaVersion+1))
		if _, total, err := sqlstore.Check(t.Context(), d.url, collections.Options{}, false); err != nil || total != 3 {
			t.Errorf("Check = %d collections, %v, want 3", total, err)
		}
		for name, s := range map[string]*collections.Store{"running": running, "restarted": open(t, d.url, collections.Options{})} {
			t.Log(name)
			load(t, s, some(3))
			wantStored(t, s, some(3))
			expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, tallyTo(10)))
			expect.NoError(t, s.Apply(t.Context(), cursorAt(10), emptyTo(11)))
			expect.NoError(t, s.StepBack(t.Context(), cursorAt(11), expect.Value(s.Trail(t.Context(), cursorAt(11)))(t)[0]))
			expect.NoError(t, s.Apply(t.Context(), cursorAt(10), tallyTo(20)))
			expect.NoDiff(t, expect.Value(s.Owners(t.Context(), []ledger.Address{{19: 20}}, nil))(t).IPs, tallyTo(20).Learned.IPs, "owners")
			expect.Equal(t, list(t, s, collections.Query{}).Total, 5, "total")
			rebuildTo(t, s, 10)
			expect.NoError(t, s.DropShadow(t.Context()))
			expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor, cursorAt(10), "cursor after a rebuild")
			d.execute(t, d.clear)
			d.execute(t, "DELETE FROM index_cursor")
		}
	})
}

func TestOtherVersionsOfTheSchemaAreRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]string{3: "tipcache index", schemaVersion + 2: "upgrade tipcache", 999: "upgrade tipcache"} {
		testEachDatabase(t, func(t *testing.T, d database) {
			s := expect.Value(drivers.Open(t.Context(), d.url, collections.Options{}))(t)
			load(t, s, some(3))
			expect.NoError(t, s.Close())
			d.execute(t, fmt.Sprintf(d.version, version))
			_, opening := drivers.Open(t.Context(), d.url, collections.Options{})
			_, _, checking := sqlstore.Check(t.Context(), d.url, collections.Options{}, false)
			for name, err := range map[string]error{"Open": opening, "Check": checking} {
				if !errors.Is(err, collections.ErrSchemaVersion) || !strings.Contains(err.Error(), fmt.Sprint("version ", version)) ||
					!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s with version %d: error = %v, want ErrSchemaVersion with %q", name, version, err, want)
				}
			}
			d.execute(t, fmt.Sprintf(d.version, schemaVersion))
			wantStored(t, open(t, d.url, collections.Options{}), some(3))
		})
	}
}

// createOlder creates the tables of an earlier version, with one counted block.
func createOlder(t *testing.T, d database, version int) {
	t.Helper()
	name, _, _ := strings.Cut(d.url, ":")
	for v := 4; v <= version; v++ {
		script := expect.Value(os.ReadFile(fmt.Sprintf("sqlstore/schema/%s-%d.sql", name, v)))(t)
		d.execute(t, string(script))
	}
	if name == "postgres" {
		d.execute(t, "CREATE TABLE collections_schema (version integer NOT NULL); INSERT INTO collections_schema VALUES (0)")
	}
	d.execute(t, fmt.Sprintf(d.version, version))
	contracts, hash := strings.Repeat("00", 60), strings.Repeat("00", 31)+"0a"
	values := fmt.Sprintf("(1, 1514, 10, x'%s', %d, x'%s')", hash, cursorAt(10).Time.UnixMicro(), contracts)
	if name == "postgres" {
		values = fmt.Sprintf(`(1, 1514, 10, '\x%s', '%s', '\x%s')`, hash, cursorAt(10).Time.Format(time.RFC3339), contracts)
	}
	d.execute(t, "INSERT INTO index_cursor (id, chain_id, block, hash, time, contracts) VALUES "+values)
}

func TestStoreOfOlderSchemaVersionIsChanged(t *testing.T) {
	t.Parallel()
	for _, version := range []int{4, 5} {
		testEachDatabase(t, func(t *testing.T, d database) {
			createOlder(t, d, version)
			found, _, err := sqlstore.Check(t.Context(), d.url, collections.Options{}, false)
			expect.NoError(t, err)
			expect.Contains(t, found, fmt.Sprintf("schema version %d, which the next start changes to 6", version), "result of Check")
			var opening sync.WaitGroup
			for range 6 {
				opening.Go(func() {
					s, err := drivers.Open(t.Context(), d.url, collections.Options{Settings: collections.Settings{Timeout: time.Minute}})
					if err == nil {
						err = errors.Join(s.Ping(t.Context()), s.Close())
					}
					if err != nil {
						t.Errorf("Open, Ping or Close = %v, want nil", err)
					}
				})
			}
			opening.Wait()
			s := open(t, d.url, collections.Options{})
			expect.Equal(t, expect.Value(s.Mark(t.Context()))(t).Cursor, cursorAt(10), "cursor")
			expect.NoError(t, s.Apply(t.Context(), cursorAt(10), tallyTo(20)))
			expect.Equal(t, list(t, s, collections.Query{}).Total, 2, "total")
			found, _, err = sqlstore.Check(t.Context(), d.url, collections.Options{}, false)
			if err != nil || strings.Contains(found, "schema version") {
				t.Errorf("Check after the change = %s, %v, want no difference of versions", found, err)
			}
		})
	}
}

// As on a standby, whose master has not been upgraded yet.
func TestReadOnlyConnectionDoesNotChangeSchema(t *testing.T) {
	url := postgrestest.Schema(t)
	d := database{url, func(t *testing.T, statement string) { postgrestest.Execute(t, url, statement) }, "UPDATE collections_schema SET version = %d", ""}
	createOlder(t, d, 5)
	readOnly := url + "&default_transaction_read_only=on"
	_, opening := drivers.Open(t.Context(), readOnly, collections.Options{})
	_, _, checking := sqlstore.Check(t.Context(), readOnly, collections.Options{}, false)
	for name, err := range map[string]error{"Open": opening, "Check": checking} {
		if !errors.Is(err, collections.ErrSchemaVersion) || !strings.Contains(err.Error(), "this connection is read-only") {
			t.Errorf("%s = %v, want ErrSchemaVersion because the connection is read-only", name, err)
		}
	}
	open(t, url, collections.Options{})
	expect.Equal(t, expect.Value(open(t, readOnly, collections.Options{}).Mark(t.Context()))(t).Cursor, cursorAt(10), "cursor")
	for url, want := range map[string]error{url: nil, readOnly: sqlstore.ErrReadOnly} {
		if _, _, err := sqlstore.Check(t.Context(), url, collections.Options{}, true); !errors.Is(err, want) {
			t.Errorf("Check of %s for an indexer = %v, want %v", url, err, want)
		}
	}
}

func TestSchemaIsCreatedCompletelyOrNotAtAll(t *testing.T) {
	t.Parallel()
	testEachDatabase(t, func(t *testing.T, d database) {
		d.execute(t, "CREATE TABLE index_steps (a integer)")
		if s, err := drivers.Open(t.Context(), d.url, collections.Options{}); err == nil {
			_ = s.Close()
			t.Fatal("Open of a database with a foreign table index_steps = nil, want an error")
		}
		d.execute(t, "DROP TABLE index_steps")
		load(t, open(t, d.url, collections.Options{}), some(3))
	})
}

func TestChangesByOthersMoveGeneration(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, d database) {
		s := open(t, d.url, collections.Options{})
		load(t, s, some(10))
		generation := list(t, s, collections.Query{}).Generation
		for _, step := range []struct {
			statement string
			total     int64
		}{
			{"DELETE FROM collections WHERE key IN (SELECT key FROM collections LIMIT 3)", 7},
			{"UPDATE collections SET asset_count = 5", 7},
			{d.clear, 0},
		} {
			d.execute(t, step.statement)
			page := list(t, s, collections.Query{})
			if page.Total != step.total || page.Generation <= generation {
				t.Errorf("%s: total %d, generation %d, want total %d and more than %d", step.statement, page.Total, page.Generation, step.total, generation)
			}
			generation = page.Generation
		}
	})
}

func TestRepeatedGenerationAfterFailoverHasItsOwnTotals(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, d database) {
		s := open(t, d.url, collections.Options{})
		ranged := collections.Query{MinAssets: new(int64)}
		load(t, s, some(10))
		last := list(t, s, ranged).Generation
		d.execute(t, d.clear)
		d.execute(t, fmt.Sprintf("UPDATE collections_state SET generation = %d", last))
		expect.Equal(t, list(t, s, ranged).Total, 0, "total at the last generation with other rows")
	})
}

func TestEachChangeOfContentHasItsOwnRevision(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, d database) {
		s := open(t, d.url, collections.Options{})
		seen := map[string]string{}
		isNew := func(after string) {
			t.Helper()
			m := expect.Value(s.Mark(t.Context()))(t)
			if by, known := seen[m.Revision]; known || m.Revision == "" {
				t.Errorf("revision after %s = %q, as after %s; want a new one", after, m.Revision, by)
			}
			seen[m.Revision] = after
			expect.Equal(t, list(t, s, collections.Query{}).Revision, m.Revision, "revision of a page after %s", after)
		}
		isNew("the creation")
		load(t, s, some(3))
		isNew("an import")
		expect.NoError(t, s.Apply(t.Context(), ledger.Cursor{}, tallyTo(10)))
		isNew("a tally")
		generation := list(t, s, collections.Query{}).Generation
		rebuildTo(t, s, 20)
		isNew("a rebuild")
		d.execute(t, fmt.Sprintf("UPDATE collections_state SET generation = %d", generation))
		isNew("a generation that occurs again")
		d.execute(t, d.clear)
		isNew("a change by another program")
		before := expect.Value(s.Mark(t.Context()))(t)
		expect.NoError(t, s.Apply(t.Context(), cursorAt(20), emptyTo(21)))
		after := expect.Value(s.Mark(t.Context()))(t)
		if after.Revision != before.Revision || after.Store != before.Store || after.Store == "" {
			t.Errorf("mark after a block without events = %+v, want the revision and store of %+v", after, before)
		}
	})
}

func TestEachStoreHasItsOwnID(t *testing.T) {
	testEachDriver(t, func(t *testing.T, f fixture) {
		ids := map[string]bool{}
		for _, s := range []*collections.Store{f.store, open(t, "sqlite::memory:", collections.Options{})} {
			m, err := s.Mark(t.Context())
			if err != nil && !errors.Is(err, collections.ErrNotIndexed) {
				t.Fatal(err)
			}
			ids[m.Store] = true
		}
		if ids[""] || len(ids) != 2 {
			t.Errorf("ids of two stores = %v, want two", ids)
		}
	})
	m, _ := open(t, "https://host.invalid/api/v4//", collections.Options{}).Mark(t.Context())
	expect.Equal(t, m.Store, "https://host.invalid/api/v4", "id of the store of another server")
}

func TestFailedImportKeepsForeignTables(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, d database) {
		s := open(t, d.url, collections.Options{})
		d.execute(t, "CREATE TABLE staged (a integer)")
		d.execute(t, "DROP TABLE collections")
		if _, err := s.Import(t.Context(), each(some(3))); err == nil {
			t.Error("Import without the table collections = nil, want an error")
		}
		d.execute(t, "SELECT a FROM staged")
	})
}

func TestManyProcessesCreateOneSchema(t *testing.T) {
	testEachLedger(t, func(t *testing.T, url string) {
		var opening sync.WaitGroup
		for range 6 {
			opening.Go(func() {
				s, err := drivers.Open(t.Context(), url, collections.Options{Settings: collections.Settings{Timeout: time.Minute}})
				if err == nil {
					err = errors.Join(s.Ping(t.Context()), s.Close())
				}
				if err != nil {
					t.Errorf("Open, Ping or Close = %v, want nil", err)
				}
			})
		}
		opening.Wait()
	})
}
