// Package ahead chooses the keys that are read as soon as a block comes, before
// anybody asks for them.
//
// A read ahead that nobody uses is one that the origin was asked in vain. So a
// key has to earn its place: it is read ahead once it was asked for at least twice
// in each of the last two blocks. A key whose read went unused loses its place,
// and earns it back in twice as many blocks as before.
package ahead

import (
	"math/rand/v2"
	"sync"
)

// Often is how many times a key is asked for in a block, at least, to be read ahead.
const Often = 2

const (
	leastRow = 2       // blocks in a row, each with Often asks, that a key needs
	mostRow  = 1 << 10 // of a key whose reads went unused again and again
	rest     = 4 << 10 // blocks after which it is forgotten that reads went unused
	most     = 1_000   // keys that can have a place
)

// Keys are the keys that have a place, or are about to earn one, each with what is
// needed to read it. The zero Keys has none, and takes none before the first
// block. It is safe for concurrent use.
type Keys[T any] struct {
	mu     sync.Mutex
	height int64 // of the newest block; 0: none yet
	byName map[string]*key[T]
}

type key[T any] struct {
	value T
	row   int  // blocks in a row in which it was asked for often
	needs int  // so many to be read ahead
	quiet int  // blocks since its row broke
	read  bool // it was read ahead for the newest block
}

// A Key is one to be read now.
type Key[T any] struct {
	Name  string
	Value T
}

// Note begins the row of a key that was asked for often in the block before the
// newest, or has its value be another one.
func (k *Keys[T]) Note(name string, value T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch at := k.byName[name]; {
	case at != nil:
		at.value, at.row = value, max(at.row, 1)
	case k.height > 0 && len(k.byName) < most:
		k.byName[name] = &key[T]{value: value, row: 1, needs: leastRow}
	}
}

// Next begins a block. asked tells how often a key was asked for in the block
// before; not ok says that this is not known any more. It gives the keys to be read
// for the block, in any order, and how many reads for the one before went unused.
// Where blocks were left out nobody knows what was asked for in each: all keys
// have to earn their places anew.
func (k *Keys[T]) Next(height int64, asked func(name string) (times int, ok bool)) (read []Key[T], unused int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byName == nil {
		k.byName = map[string]*key[T]{}
	}
	gap := height != k.height+1
	k.height = height
	for name, at := range k.byName {
		switch {
		case at.row == 0:
			at.quiet++
		case gap:
			at.row = 0
		default:
			if at.turn(asked(name)) {
				unused++
			}
		}
		at.read = false
		if at.row >= at.needs {
			read = append(read, Key[T]{name, at.value})
		}
		if at.row == 0 && (at.needs == leastRow || at.quiet > rest) {
			delete(k.byName, name)
		}
	}
	rand.Shuffle(len(read), func(i, j int) { read[i], read[j] = read[j], read[i] }) // replicas begin with different ones
	return read, unused
}

// turn ends a block for a key, and tells whether its read went unused.
func (at *key[T]) turn(times int, known bool) (unused bool) {
	unused = known && at.read && times == 0
	if unused {
		at.needs = min(2*at.needs, mostRow)
	} else if at.read {
		at.needs = max(at.needs-1, leastRow)
	}
	if at.row++; !known || times < Often {
		at.row, at.quiet = 0, 0
	}
	return unused
}

// Read notes that a key was read ahead for the newest block.
func (k *Keys[T]) Read(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.byName[name]; at != nil {
		at.read = true
	}
}

// Has tells whether a key is to be read when the next block comes, if it is asked
// for as often in this one.
func (k *Keys[T]) Has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.byName[name]
	return at != nil && at.row > 0 && at.row+1 >= at.needs
}

// Forget has all keys earn their places anew.
func (k *Keys[T]) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, at := range k.byName {
		if at.row, at.read = 0, false; at.needs == leastRow {
			delete(k.byName, name)
		}
	}
}
