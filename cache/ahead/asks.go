package ahead

import "sync/atomic"

// often is how often a key is asked for in a block, at least, to be read ahead.
const often = 2

// Asks count how often an entry was asked for, as far as that matters. The zero
// Asks is none. Once there are enough, counting takes a load and no more, so that
// callers on many processors do not get into each other's way.
type Asks struct {
	n atomic.Uint32 // of this entry in the low byte, of the one before it in the next
}

// Add counts one.
func (a *Asks) Add() {
	if a.n.Load()&0xff < often {
		a.n.Add(1)
	}
}

// Often tells whether the entry was asked for often.
func (a *Asks) Often() bool { return a.n.Load()&0xff >= often }

// Follow begins the asks of an entry that takes the place of another.
func (a *Asks) Follow(before *Asks) { a.n.Store((before.n.Load() & 0xff) << 8) }

// Take is how often the entry was asked for since it was called before.
func (a *Asks) Take() int { return int(a.n.Swap(0) & 0xff) }

// Before is how often the entry was asked for whose place this one has taken.
func (a *Asks) Before() int { return int(a.n.Load() >> 8) }
