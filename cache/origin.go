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

// NewEntry describes an entry that the cache received from an origin or the shared store, for [Options].OnNewEntry.
type NewEntry struct {
	Key    string
	Entry  *Entry
	Shared bool   // from the shared store
	Node   string // node that answered; "" if unknown
	Origin Origin // reads the entry again, with a [Reading]
}

// Reading tells an [Origin] how to read for an audit, and returns which node answered.
type Reading struct {
	Audit  bool   // Height, Only and Avoid apply
	Height int64  // height to read at
	Only   string // node that must answer; "" for any
	Avoid  string // node that may answer only if no other can; "" for none

	Node string // set by the origin: the node that answered
	At   int64  // set by the origin: the height of the answer; 0 for none
}

type readingKey struct{}

// WithReading passes a Reading to the origins called with ctx.
func WithReading(ctx context.Context, r *Reading) context.Context {
	return context.WithValue(ctx, readingKey{}, r)
}

// ReadingOf returns the Reading that an [Origin] was called with, nil for none.
func ReadingOf(ctx context.Context) *Reading {
	r, _ := ctx.Value(readingKey{}).(*Reading)
	return r
}

func (r *request) audits() bool { return r.c.o.OnNewEntry != nil && r.q.Audit }

// reportNewEntry reports an entry received for q. node answered, unless the shared store did.
func (r *request) reportNewEntry(e *Entry, shared bool, node string) {
	if r.audits() {
		r.c.o.OnNewEntry(NewEntry{Key: r.q.Key, Entry: e, Shared: shared, Node: node, Origin: r.origin})
	}
}
