package redis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Dialect is what a replica has noted that the nodes of a chain speak, "" for
// nothing. It fails for a note that is not sealed with our key.
func (s *Store) Dialect(ctx context.Context, chainID string) (dialect string, err error) {
	at := dialectKey(chainID)
	found := false
	err = s.do(ctx, func(ctx context.Context) error {
		dialect, err = s.rdb.Get(ctx, at).Result()
		if found = err == nil; errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if err != nil || !found {
		return "", err
	}
	if dialect, err = s.codec.open(at, dialect); err != nil {
		s.unreadable(at, err)
	}
	return dialect, err
}

// NoteDialect notes what the nodes of a chain speak, for as long as an epoch is
// noted.
func (s *Store) NoteDialect(ctx context.Context, chainID, dialect string) error {
	at := dialectKey(chainID)
	return s.do(ctx, func(ctx context.Context) error {
		return s.rdb.Set(ctx, at, s.codec.seal(at, []byte(dialect)), epochLife).Err()
	})
}

func dialectKey(chainID string) string { return noteKey("dialect", chainID) }
