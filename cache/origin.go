package cache

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverloaded means that too many callers wait in flights.
var ErrOverloaded = errors.New("cache: too many callers are waiting")

// ErrShare means that too many callers of this client wait in flights.
var ErrShare = errors.New("cache: too many callers of this client are waiting")

// ErrBehind is the error of an [Origin] that is behind the tip or the cached entry. An entry of any age is better.
var ErrBehind = errors.New("cache: the origin is behind the tip")

// ErrYielded is returned by an [Origin] that has no capacity for a read ahead.
var ErrYielded = errors.New("cache: the origin has no capacity for a read ahead")

// errSlow is the failure if an old entry is served because the origin did not answer in time.
var errSlow = fmt.Errorf("cache: the origin did not answer within the wait budget: %w", context.DeadlineExceeded)

var errClosed = errors.New("cache: closed")

// Origin reads an answer. prev is the newest known entry, nil for none; if the content is unchanged, the origin
// returns prev.Confirm(...). ctx has the values of the caller that started the flight, but ends with the flight.
type Origin func(ctx context.Context, prev *Entry) (*Entry, error)

type backgroundKey struct{}

// InBackground reports to an [Origin] that no caller waits for the answer yet. Other reads may go first.
func InBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

type aheadKey struct{}

// Ahead reports to an [Origin] that no caller requested the answer. Without free capacity it must return [ErrYielded].
func Ahead(ctx context.Context) bool { return ctx.Value(aheadKey{}) != nil }
