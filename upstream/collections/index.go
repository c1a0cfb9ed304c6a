package collections

import (
	"context"
	"errors"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// ErrNotIndexed is what methods for indexers return for a store that another server fills.
var ErrNotIndexed = errors.New("collections: the store is read-only: index into the database behind it")

// Cursor returns the last block whose events the store has counted, the zero
// Cursor if there is none. Its errors are those of Mark.
func (s *Store) Cursor(ctx context.Context) (ledger.Cursor, error) {
	m, err := s.Mark(ctx)
	return m.Cursor, err
}

// Owners returns those of the ids that the store knows. Its errors are those of Mark.
func (s *Store) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (ledger.Owners, error) {
	ctx, span := upstream.StartSpan(ctx, "collections.owners")
	found, err := within(ctx, s, func(ctx context.Context) (ledger.Owners, error) { return s.driver.Owners(ctx, ips, disputes) })
	upstream.EndSpan(span, err)
	return found, err
}

// applyPatience is how many times Options.Timeout an Apply may take: it may wait for an import.
const applyPatience = 12

// Apply counts a tally, learns its ids and moves the cursor, all in one transaction. If the cursor
// is not prev, the error is ledger.ErrCursorMoved and nothing was changed; after any other it is
// not known whether the tally was counted: Cursor tells. Metadata stays as it is.
func (s *Store) Apply(ctx context.Context, prev ledger.Cursor, t ledger.Tally) error {
	ctx, span := upstream.StartSpan(ctx, "collections.apply")
	bounded, cancel := context.WithTimeout(ctx, applyPatience*s.timeout)
	defer cancel()
	err := givenUp(ctx, s.driver.Apply(bounded, prev, t))
	upstream.EndSpan(span, err)
	return err
}

// Trail returns the cursors from which the store came to one, the latest first, as
// far as nothing was counted since: at most 64. Its errors are those of Mark.
func (s *Store) Trail(ctx context.Context, from ledger.Cursor) ([]ledger.Cursor, error) {
	return within(ctx, s, func(ctx context.Context) ([]ledger.Cursor, error) { return s.driver.Trail(ctx, from) })
}

// StepBack moves the cursor back to one of its Trail. Its errors are those of Apply.
func (s *Store) StepBack(ctx context.Context, from, to ledger.Cursor) error {
	bounded, cancel := context.WithTimeout(ctx, applyPatience*s.timeout)
	defer cancel()
	return givenUp(ctx, s.driver.StepBack(bounded, from, to))
}

// MarkIncomplete records that the store may lack logs, until Adopt replaces its content. Its errors
// are those of Apply, except ledger.ErrCursorMoved.
func (s *Store) MarkIncomplete(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, applyPatience*s.timeout)
	defer cancel()
	return givenUp(ctx, s.driver.MarkIncomplete(bounded))
}

// Beside opens a second store, in which all can be counted anew: a file with .rebuild at the end of
// its name, or a schema with _rebuild, as it was left. It has to be closed before Adopt.
func (s *Store) Beside(ctx context.Context) (*Store, error) {
	name, driver, err := s.driver.Beside(ctx)
	if err != nil {
		return nil, err
	}
	return New(name, driver, Options{Timeout: s.timeout})
}

// Adopt makes this store hold what the one beside it holds, the cursor included, in
// one transaction, until the end of which readers see what was there before.
func (s *Store) Adopt(ctx context.Context) error { return givenUp(ctx, s.driver.Adopt(ctx)) }

// DropBeside removes the store beside this one.
func (s *Store) DropBeside(ctx context.Context) error { return s.driver.DropBeside(ctx) }

// Lead runs work while no other process runs it for the same database, and waits for its turn
// first. The context of work ends when the lock is lost together with its connection; until that is
// noticed two may work, which Apply makes harmless. Lead returns what work does, or why it has lost
// the lock. A file has no such lock.
func (s *Store) Lead(ctx context.Context, work func(context.Context) error) error {
	return s.driver.Lead(ctx, work)
}
