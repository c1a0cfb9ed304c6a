package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/tipcache/tipcache/upstream/collections"
)

//go:embed schema
var schemaFiles embed.FS

// migrate brings the schema up to date. Its version, which is the number of
// scripts applied, is read again under the lock: another process may have been
// faster.
func (s *store) migrate(ctx context.Context) error {
	files, err := fs.Glob(schemaFiles, s.scripts+"/*.sql") // sorted by name
	if err != nil {
		return err
	}
	w, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	if version, err := s.known(ctx, w, len(files)); err != nil || version == len(files) {
		return err
	}
	return s.transact(ctx, w, func() error {
		if err := exec(ctx, w, s.lockSchema); err != nil {
			return err
		}
		version, err := s.known(ctx, w, len(files))
		for ; err == nil && version < len(files); version++ {
			err = s.apply(ctx, w, files[version], version+1)
		}
		return err
	})
}

// known is the version of the schema, at most the newest that this program knows.
func (s *store) known(ctx context.Context, w *sql.Conn, newest int) (version int, err error) {
	if version, err = s.version(ctx, w); err == nil && version > newest {
		err = fmt.Errorf("%w: it has version %d, known is %d", collections.ErrNewerSchema, version, newest)
	}
	return version, err
}

// apply runs the script that leads to a version.
func (s *store) apply(ctx context.Context, w *sql.Conn, file string, version int) error {
	script, err := schemaFiles.ReadFile(file)
	if err != nil {
		return err
	}
	if err := exec(ctx, w, string(script)); err != nil {
		return err
	}
	return exec(ctx, w, fmt.Sprintf(s.setVersion, version))
}
