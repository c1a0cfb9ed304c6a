package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
)

// MissingInSQLite names the scripts of the schema that OpenSQLite would run on the
// database file of a URL. The file has to be there, and is not written.
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
	defer s.Close()
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var missing []string
	err = whileLocked(waiting, func() error {
		missing, err = s.missingNames(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("collections: %w", s.failed(err))
	}
	return missing, nil
}

// MissingInPostgres names the scripts of the schema that OpenPostgres would run on
// the database at a URL. Nothing is written. The error holds no credentials.
func MissingInPostgres(ctx context.Context, url string, o collections.Options) ([]string, error) {
	s, err := connectPostgres(ctx, url, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	missing, err := s.missingNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("collections: %w", s.failed(err))
	}
	return missing, nil
}

func (s *store) missingNames(ctx context.Context) ([]string, error) {
	conn, err := s.readers.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	missing, err := s.missing(ctx, conn)
	return names(missing), err
}
