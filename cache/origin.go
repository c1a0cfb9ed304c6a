package cache

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverloaded means that too many callers wait in flights already.
var ErrOverloaded = errors.New("cache: too many callers are waiting")

// ErrBehind is what an [Origin] fails with whose state is older than the tip, and
// what one comes to whose state is older than the entry at hand as well. An entry
// of any age is better than that failure.
var ErrBehind = errors.New("cache: the origin is behind the tip")

// ErrYielded is what an [Origin] fails with that was to read ahead and has no
// room for that now.
var ErrYielded = errors.New("cache: the origin has no room for a read ahead")

// errSlow is why an old entry is given while the origin is asked: no answer in time.
var errSlow = fmt.Errorf("cache: the origin takes longer than there is patience for: %w", context.DeadlineExceeded)

var errClosed = errors.New("cache: closed")

// Origin reads the answer anew. prev is the newest entry at hand, nil if there
// is none; an origin that finds its content unchanged returns prev.Confirm(...).
// ctx ends with the flight, not with the caller that started it, whose values it
// carries.
type Origin func(ctx context.Context, prev *Entry) (*Entry, error)

type backgroundKey struct{}

// InBackground tells an [Origin] that no caller waits for its answer yet, so
// that it can let others go first.
func InBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

type aheadKey struct{}

// Ahead tells an [Origin] that no caller has asked for its answer. An origin that has no
// room for that at once fails with [ErrYielded].
func Ahead(ctx context.Context) bool { return ctx.Value(aheadKey{}) != nil }

// A Taken is an entry that the cache has taken from an origin or from the shared
// store, for [Options].Taken.
type Taken struct {
	Key    string
	Entry  *Entry
	Shared bool   // from the shared store
	By     string // the node that answered; "" unknown
	Origin Origin // reads it again, with a [Reading]
}

// A Reading says how an [Origin] reads for an audit, and which node has answered.
type Reading struct {
	Audit  bool   // the fields that follow count
	Height int64  // to read at
	Only   string // the node that is to answer; "" for any
	Avoid  string // the node that is to answer only where no other can; "" for none

	By string // set by the origin: the node that answered
	At int64  // set by the origin: the height that the answer is of; 0 for none
}

type readingKey struct{}

// WithReading has an origin called with ctx read so, and say which node answered.
func WithReading(ctx context.Context, r *Reading) context.Context {
	return context.WithValue(ctx, readingKey{}, r)
}

// ReadingOf is what an [Origin] was called with, nil for nothing.
func ReadingOf(ctx context.Context) *Reading {
	r, _ := ctx.Value(readingKey{}).(*Reading)
	return r
}

// taken tells of an entry that was taken for q, by whom it was answered, unless the
// shared store gave it.
func (r *request) taken(e *Entry, shared bool, by string) {
	if r.c.o.Taken != nil && r.q.Audit {
		r.c.o.Taken(Taken{Key: r.q.Key, Entry: e, Shared: shared, By: by, Origin: r.origin})
	}
}
