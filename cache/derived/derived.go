// Package derived keeps a few things that were made of one, by name.
package derived

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"
)

// most bounds the things in a set, and life is how long they stay unchanged at
// least once there are so many: names that change with every request cannot make
// all that is kept be made anew each time.
const (
	most = 4
	life = time.Second
)

// A Set keeps things of one kind. It is safe for concurrent use, and its zero
// value is empty.
type Set[T any] struct {
	list atomic.Pointer[list[T]]
}

// list is immutable.
type list[T any] struct {
	kept    []named[T] // the oldest first
	changed time.Time  // when the last one came
}

type named[T any] struct {
	name  string
	thing T
}

// Get gives the thing of a name, if it is there.
func (s *Set[T]) Get(name string) (thing T, ok bool) { return s.list.Load().get(name) }

// Add keeps a thing under a name. It gives that thing, or the one that another
// caller has kept there before. It is not ok where it keeps none: a set takes
// another thing for its oldest once a second at the most.
func (s *Set[T]) Add(name string, thing T, now time.Time) (kept T, ok bool) {
	for {
		before := s.list.Load()
		if found, ok := before.get(name); ok {
			return found, true
		}
		after, ok := before.with(named[T]{name, thing}, now)
		if !ok {
			return thing, false
		}
		if s.list.CompareAndSwap(before, after) {
			return thing, true
		}
	}
}

// All gives the things with their names.
func (s *Set[T]) All() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		l := s.list.Load()
		if l == nil {
			return
		}
		for _, one := range l.kept {
			if !yield(one.name, one.thing) {
				return
			}
		}
	}
}

// with is l and one more, which may take the place of the oldest.
func (l *list[T]) with(one named[T], now time.Time) (after *list[T], ok bool) {
	if l == nil {
		return &list[T]{[]named[T]{one}, now}, true
	}
	kept := slices.Clone(l.kept)
	if len(kept) == most {
		if now.Sub(l.changed) < life {
			return l, false
		}
		kept = kept[1:]
	}
	return &list[T]{append(kept, one), now}, true
}

func (l *list[T]) get(name string) (thing T, ok bool) {
	if l == nil {
		return thing, false
	}
	for _, one := range l.kept {
		if one.name == name {
			return one.thing, true
		}
	}
	return thing, false
}
