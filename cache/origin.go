package cache

import (
	"context"
	"errors"
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

var errSlow = errors.New("cache: the origin takes longer than there is patience for")

var errClosed = errors.New("cache: closed")

// Origin reads the answer anew. prev is the newest entry at hand, nil if there
// is none; an origin that finds its content unchanged returns prev.Confirm(...).
// ctx ends with the flight, not with the caller that started it, whose values it
// carries.
type Origin func(ctx context.Context, prev *Entry) (*Entry, error)

type backgroundKey struct{}

func inBackground(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// InBackground tells an [Origin] that no caller waits for its answer yet, so
// that it can let others go first.
func InBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }
