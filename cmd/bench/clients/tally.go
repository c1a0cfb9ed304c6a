package clients

import (
	"fmt"
	"sync"
)

// A Tally counts what clients of a run see, by names. It is safe for concurrent use; the zero
// value has counted nothing.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
	wrong  error // the first
}

// Add counts n more of something, and says how many there are.
func (t *Tally) Add(name string, n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[name] += n
	return t.counts[name]
}

// Of is how many there are of some things together.
func (t *Tally) Of(names ...string) (n int) {
	for _, name := range names {
		n += t.Add(name, 0)
	}
	return n
}

// Row has a cell for each name.
func (t *Tally) Row(names ...string) []any {
	row := make([]any, len(names))
	for i, name := range names {
		row[i] = t.Of(name)
	}
	return row
}

// Blame counts something that is wrong, and keeps the first that is.
func (t *Tally) Blame(name, format string, args ...any) {
	t.Add(name, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == nil {
		t.wrong = fmt.Errorf(format, args...)
	}
}

// Wrong is the first that was, nil for none.
func (t *Tally) Wrong() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrong
}
