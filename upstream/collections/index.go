package collections

import (
	"context"
	"errors"
	"iter"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// ErrNotIndexed is what the methods for indexers return for a store that
// another server fills.
var ErrNotIndexed = errors.New("collections: the store is read-only: index into the database behind it")

// ReadOnly has the methods of a Driver that another server fills.
type ReadOnly struct{}

// Load returns ErrReadOnly.
func (ReadOnly) Load(context.Context, iter.Seq2[Collection, error]) error { return ErrReadOnly }

// Owners returns ErrNotIndexed, as do the methods below.
func (ReadOnly) Owners(context.Context, []ledger.Address, []ledger.Hash) (o ledger.Owners, err error) {
	return o, ErrNotIndexed
}

// Apply returns ErrNotIndexed.
func (ReadOnly) Apply(context.Context, ledger.Cursor, ledger.Tally) error { return ErrNotIndexed }

// Trail returns ErrNotIndexed.
func (ReadOnly) Trail(context.Context, ledger.Cursor) ([]ledger.Cursor, error) {
	return nil, ErrNotIndexed
}

// StepBack returns ErrNotIndexed.
func (ReadOnly) StepBack(context.Context, ledger.Cursor, ledger.Cursor) error { return ErrNotIndexed }

// Beside returns ErrNotIndexed, as do the methods below.
func (ReadOnly) Beside(context.Context) (string, Driver, error) { return "", nil, ErrNotIndexed }

// Adopt returns ErrNotIndexed.
func (ReadOnly) Adopt(context.Context) error { return ErrNotIndexed }

// DropBeside returns ErrNotIndexed.
func (ReadOnly) DropBeside(context.Context) error { return ErrNotIndexed }

// Lead returns ErrNotIndexed.
func (ReadOnly) Lead(context.Context, func(context.Context) error) error { return ErrNotIndexed }

// Mark returns ErrNotIndexed.
func (ReadOnly) Mark(context.Context) (m Mark, err error) { return m, ErrNotIndexed }

// A Mark is how far a store has come.
type Mark struct {
	Generation int64         // as in Page
	Total      int64         // collections there are
	Cursor     ledger.Cursor // the last block counted; zero for none
}

// Mark returns how far the store has come. It is cheap enough to be asked for
// every second, and its errors are those of List, or ErrNotIndexed.
func (s *Store) Mark(ctx context.Context) (m Mark, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		m, err = s.driver.Mark(ctx)
		return err
	})
	return m, err
}

// Cursor returns the last block whose events the store has counted, the zero
// Cursor if there is none. Its errors are those of Mark.
func (s *Store) Cursor(ctx context.Context) (ledger.Cursor, error) {
	m, err := s.Mark(ctx)
	return m.Cursor, err
}

// Owners returns those of the ids that the store knows. Its errors are those of
// Mark.
func (s *Store) Owners(ctx context.Context, ips []ledger.Address, disputes []ledger.Hash) (found ledger.Owners, err error) {
	ctx, span := upstream.StartSpan(ctx, "collections.owners")
	err = s.within(ctx, func(ctx context.Context) error {
		found, err = s.driver.Owners(ctx, ips, disputes)
		return err
	})
	upstream.EndSpan(span, err)
	return found, err
}

// applyPatience is how many times Options.Timeout an Apply may take: it writes,
// and may wait for an import.
const applyPatience = 12

// Apply counts a tally, learns its ids and moves the cursor, all in one
// transaction, if the cursor is still prev. If it is not, the error is
// ledger.ErrCursorMoved and nothing was changed. After any other error it is
// not known whether the tally was counted: Cursor tells. A collection that is
// new is created at the time of its first event. Metadata stays as it is.
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
func (s *Store) Trail(ctx context.Context, from ledger.Cursor) (trail []ledger.Cursor, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		trail, err = s.driver.Trail(ctx, from)
		return err
	})
	return trail, err
}

// StepBack moves the cursor back to one of its Trail. Its errors are those of Apply.
func (s *Store) StepBack(ctx context.Context, from, to ledger.Cursor) error {
	bounded, cancel := context.WithTimeout(ctx, applyPatience*s.timeout)
	defer cancel()
	return givenUp(ctx, s.driver.StepBack(bounded, from, to))
}

// Beside opens a second store next to this one, in which all can be counted anew: a
// file with .rebuild at the end of its name, or a schema with _rebuild. It is empty,
// or as it was left the last time. It has to be closed before Adopt.
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

// Lead runs work while no other process runs it for the same database, and
// waits for its turn first. The context that work gets ends with ctx, and when
// the lock is lost together with its connection; in the time until that is
// noticed two may work, which Apply makes harmless. Lead returns what work does,
// or why it has lost the lock. A file has no such lock: there Apply alone keeps
// indexers apart.
func (s *Store) Lead(ctx context.Context, work func(context.Context) error) error {
	return s.driver.Lead(ctx, work)
}
