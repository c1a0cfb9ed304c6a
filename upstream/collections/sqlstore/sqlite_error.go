package sqlstore

import (
	"context"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
)

// sqliteError classifies a failure.
func sqliteError(err error) error {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return collections.Busy(err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
		return &upstream.Error{Kind: upstream.Unreachable, Msg: collections.OriginName + " cannot be reached", Err: err}
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return upstream.Silence(collections.OriginName, err)
	default:
		return collections.Unusable(err)
	}
}

// sqliteCode is SQLite's primary result code, 0 if the error is not its.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}
