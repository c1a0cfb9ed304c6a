package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/upstream/collections"
)

// ErrReadOnly means that a PostgreSQL server cannot be written, for example because a failover has made it a standby.
var ErrReadOnly = errors.New("the connection is read-only: name target_session_attrs=read-write in the URL if it has several hosts")

// Check returns the version of the database and the number of collections in it, or the error that Open would return for its
// schema. With write it fails with ErrReadOnly if the database cannot be written. It writes nothing. A database file must exist.
func Check(ctx context.Context, url string, o collections.Options, write bool) (version string, total int64, err error) {
	s, err := connect(ctx, url, o.WithDefaults(), true)
	if err != nil {
		return "", 0, err
	}
	defer s.Close()
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err = whileLocked(waiting, func() error {
		conn, err := s.readers.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		found, err := s.findSchema(ctx, conn)
		if found > 0 {
			err = conn.QueryRowContext(ctx, selectTotal).Scan(&total)
		}
		var readOnly bool
		if err == nil && write {
			err = conn.QueryRowContext(ctx, s.selectReadOnly).Scan(&readOnly)
		}
		if err == nil && readOnly {
			err = collections.Unusable(ErrReadOnly)
		}
		if err == nil {
			err = conn.QueryRowContext(ctx, s.selectVersion).Scan(&version)
		}
		if found > 0 && found < schemaVersion {
			version += fmt.Sprintf(", schema version %d, which the next start changes to %d", found, schemaVersion)
		}
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("collections: %w", s.failed(err))
	}
	return version, total, nil
}
