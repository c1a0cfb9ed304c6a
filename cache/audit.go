package cache

import "context"

// A Taken is an entry that the cache has taken from an origin or from the shared
// store, for [Options].Taken.
type Taken struct {
	Key    string
	Entry  *Entry
	Shared bool   // from the shared store
	By     string // who answered for the origin; "" unknown
	Origin Origin // reads it again, with a [Reading]
}

// A Reading says how an [Origin] reads for an audit, and who has answered.
type Reading struct {
	Audit  bool   // the fields that follow count
	Height int64  // to read at
	Only   string // who is to answer; "" for any
	Avoid  string // who is to answer only where nobody else can; "" for none

	By string // set by the origin: who answered
	At int64  // set by the origin: the height that the answer is of; 0 for none
}

type readingKey struct{}

// WithReading has an origin called with ctx read so, and say who answered.
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
func (c *Cache) taken(q *Query, e *Entry, shared bool, by string, origin Origin) {
	if c.o.Taken != nil && q.Audit {
		c.o.Taken(Taken{Key: q.Key, Entry: e, Shared: shared, By: by, Origin: origin})
	}
}
