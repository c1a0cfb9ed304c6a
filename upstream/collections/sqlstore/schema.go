package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream/collections"
)

//go:embed schema
var schemaFiles embed.FS

// A script is one step of the schema: schema/DATABASE/NUMBER_NAME.sql, or .expand.sql for an
// expansion, which earlier versions of the program need not know.
type script struct {
	number    int
	name      string // NUMBER_NAME
	expansion bool
	text      string
}

// readScripts reads the scripts of a directory in the order of their numbers.
func readScripts(files fs.FS, dir string) (all []script, err error) {
	found, err := fs.Glob(files, dir+"/*.sql") // sorted by name
	for _, file := range found {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		name, expansion := strings.CutSuffix(strings.TrimSuffix(path.Base(file), ".sql"), ".expand")
		digits, _, _ := strings.Cut(name, "_")
		number, err := strconv.Atoi(digits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, script{number, name, expansion, string(text)})
	}
	return all, err
}

// migrate runs the scripts that the schema lacks, all or none. Which these are is
// read again under the lock: another process may have been faster.
func (s *store) migrate(ctx context.Context) error {
	w, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	if missing, err := s.missing(ctx, w); err != nil || len(missing) == 0 {
		return err
	}
	var applied []script
	began := time.Now()
	err = s.transact(ctx, w, func() error {
		if err := exec(ctx, w, s.lockSchema); err != nil {
			return err
		}
		applied, err = s.missing(ctx, w)
		if len(applied) > 0 {
			s.log.Info("migrating the store", "store", s.name, "scripts", names(applied))
		}
		for i := 0; err == nil && i < len(applied); i++ {
			err = s.apply(ctx, w, applied[i])
		}
		return err
	})
	if err == nil && len(applied) > 0 {
		s.log.Info("store migrated", "store", s.name, "scripts", names(applied), "took", time.Since(began).Round(time.Millisecond).String())
	}
	return err
}

// missing are the scripts that the schema lacks: the expansions that it has no record of, and what
// is above its version, which must not be above the newest that this program knows.
func (s *store) missing(ctx context.Context, w *sql.Conn) ([]script, error) {
	all, err := readScripts(s.scripts, s.scriptsDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.schemaTimeout)
	defer cancel()
	version, err := s.version(ctx, w)
	if err != nil {
		return nil, err
	}
	if newest := newestVersion(all); version > newest {
		return nil, fmt.Errorf("%w: it has version %d, known is %d", collections.ErrNewerSchema, version, newest)
	}
	expanded, err := s.expansions(ctx, w)
	return slices.DeleteFunc(all, func(m script) bool {
		if m.expansion {
			return slices.Contains(expanded, m.name)
		}
		return m.number <= version
	}), err
}

// newestVersion is the number of the last script that is no expansion.
func newestVersion(all []script) (newest int) {
	for _, m := range all {
		if !m.expansion {
			newest = m.number
		}
	}
	return newest
}

// expansions are the names of the expansions that the schema has.
func (s *store) expansions(ctx context.Context, w *sql.Conn) (all []string, err error) {
	known, err := s.exists(ctx, w, "collections_expansions")
	if err != nil || !known {
		return nil, err
	}
	err = query(ctx, w, "SELECT name FROM collections_expansions", nil, func(row *sql.Rows) error {
		all = append(all, "")
		return row.Scan(&all[len(all)-1])
	})
	return all, err
}

// exists tells whether there is a table of that name.
func (d *dialect) exists(ctx context.Context, w *sql.Conn, table string) (known bool, err error) {
	err = w.QueryRowContext(ctx, d.tableExists, table).Scan(&known)
	return known, err
}

// apply runs a script and records it.
func (s *store) apply(ctx context.Context, w *sql.Conn, m script) error {
	if err := exec(ctx, w, m.text); err != nil {
		return fmt.Errorf("migration %s: %w", m.name, err)
	}
	if !m.expansion {
		return exec(ctx, w, fmt.Sprintf(s.setVersion, m.number))
	}
	if err := exec(ctx, w, s.makeExpansions); err != nil {
		return err
	}
	return exec(ctx, w, "INSERT INTO collections_expansions (name) VALUES ($1)", m.name)
}

func names(scripts []script) (all []string) {
	for _, m := range scripts {
		all = append(all, m.name)
	}
	return all
}

// MissingInSQLite names the scripts that OpenSQLite would run on a file, which has to be there.
func MissingInSQLite(ctx context.Context, url string, o collections.Options) ([]string, error) {
	dsn, err := sqliteDSN(strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn+"&mode=rw&_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	s := &store{dialect: sqliteDialect, engine: &sqliteEngine{}, readers: db, writer: db}
	return s.missingNames(ctx, o.Timeout)
}

// MissingInPostgres names the scripts that OpenPostgres would run. The error holds no credentials.
func MissingInPostgres(ctx context.Context, url string, o collections.Options) ([]string, error) {
	s, err := connectPostgres(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return s.missingNames(ctx, o.Timeout)
}

// missingNames closes the store.
func (s *store) missingNames(ctx context.Context, patience time.Duration) ([]string, error) {
	defer s.Close()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var missing []script
	err := whileLocked(waiting, func() error {
		conn, err := s.readers.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		missing, err = s.missing(ctx, conn)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("collections: %w", s.failed(err))
	}
	return names(missing), nil
}
