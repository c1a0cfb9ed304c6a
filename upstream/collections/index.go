package collections

import (
	"context"
	"errors"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// ErrNotIndexed is the error of Mark and Lead if another server fills the store. The other methods for indexers must not be
// called then.
var ErrNotIndexed = errors.New("collections: the store is read-only: index into the database behind it")

// Owners returns the owners of the ids that the store knows. It has the timeout of Apply, because a tally may need the
// owners of tens of thousands of ids. It returns the errors of Mark.
func (s *Store) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error) {
	ctx, span := upstream.StartSpan(ctx, "collections.owners")
	found, err := within(ctx, s, applyTimeouts*s.timeout, func(ctx context.Context) (ledger.Owners, error) {
		return s.ledger.Owners(ctx, ips, disputes)
	})
	upstream.EndSpan(span, err)
	return found, err
}

// applyTimeouts is the multiple of Options.Timeout that an Apply may take, because it may wait for an import.
const applyTimeouts = 12

// Apply adds the counts of a tally, stores its owners and moves the cursor in one transaction. If the cursor is not prev, it
// changes nothing and fails with ledger.ErrCursorMoved. After any other error the tally may or may not have been applied. The
// cursor shows it.
func (s *Store) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	ctx, span := upstream.StartSpan(ctx, "collections.apply")
	err := s.write(ctx, func(ctx context.Context) error { return s.ledger.Apply(ctx, prev, t) })
	upstream.EndSpan(span, err)
	return err
}

func (s *Store) write(ctx context.Context, change func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, applyTimeouts*s.timeout)
	defer cancel()
	return canceled(ctx, change(bounded))
}

// Trail returns at most 64 cursors before from, the latest first, back to the last one at which something was counted. Its
// errors are those of Mark.
func (s *Store) Trail(ctx context.Context, from ledger.Cursor) ([]ledger.Cursor, error) {
	return within(ctx, s, s.timeout, func(ctx context.Context) ([]ledger.Cursor, error) { return s.ledger.Trail(ctx, from) })
}

// StepBack moves the cursor back to one of its Trail. Its errors are those of Apply.
func (s *Store) StepBack(ctx context.Context, from, to ledger.Cursor) error {
	return s.write(ctx, func(ctx context.Context) error { return s.ledger.StepBack(ctx, from, to) })
}

// MarkIncomplete records that the store may lack logs, until SwapIn replaces its content. Its errors
// are those of Apply, except ledger.ErrCursorMoved.
func (s *Store) MarkIncomplete(ctx context.Context) error {
	return s.write(ctx, s.ledger.MarkIncomplete)
}

// Shadow opens a second store for counting everything again: a file with the suffix .rebuild, or a schema with the suffix
// _rebuild. It keeps the content of an earlier, interrupted rebuild. The caller must close it before SwapIn.
func (s *Store) Shadow(ctx context.Context) (*Store, error) {
	name, driver, err := s.ledger.Shadow(ctx)
	if err != nil {
		return nil, err
	}
	return New(name, driver, Options{Settings: Settings{Timeout: s.timeout}}), nil
}

// SwapIn replaces the store's content, including the cursor, by the shadow store's in one transaction, and empties the shadow
// store. Until it ends, readers see the old content. SQLite commits each file by itself, so that after a power failure one of
// the two stores may be as before.
func (s *Store) SwapIn(ctx context.Context) error { return canceled(ctx, s.ledger.SwapIn(ctx)) }

// DropShadow removes the shadow store, or empties it if its PostgreSQL schema belongs to another role.
func (s *Store) DropShadow(ctx context.Context) error { return s.ledger.DropShadow(ctx) }

// Lead waits for a lock of the database and runs work while holding it. If the connection with the lock breaks, it cancels the
// context of work. Until it notices, another process may also run work, which Apply makes harmless. Lead returns the error of
// work, or why it has lost the lock. A SQLite store has no such lock.
func (s *Store) Lead(ctx context.Context, work func(context.Context) error) error {
	if s.ledger == nil {
		return ErrNotIndexed
	}
	return s.ledger.Lead(ctx, work)
}
