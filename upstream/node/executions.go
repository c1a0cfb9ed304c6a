package node

import (
	"cmp"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"
)

// mostExecutions is how many blocks are remembered: those of some hours, if each was
// asked for.
const mostExecutions = 4096

// An execution is the newest block of the execution client that counts at a height.
type execution struct{ height, newest int64 }

// executions are those of an epoch that nodes have told of, by height. Neither of the
// two numbers ever falls from one to the next.
type executions struct {
	asked singleflight.Group

	mu    sync.Mutex
	epoch int64
	all   []execution
}

// since is the lowest height at which a block is known to count, 0 for none.
func (e *executions) since(epoch, number int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, _ := slices.BinarySearchFunc(e.all, number, func(x execution, number int64) int { return cmp.Compare(x.newest, number) })
	if epoch != e.epoch || i == len(e.all) {
		return 0
	}
	return e.all[i].height
}

// at is the newest block that counts at a height; ok is false where that is not known.
func (e *executions) at(epoch, height int64) (newest int64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.place(height)
	if !ok || epoch != e.epoch {
		return 0, false
	}
	return e.all[i].newest, true
}

// keep remembers an execution of an epoch, unless it contradicts what is known.
func (e *executions) keep(epoch int64, x execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch < e.epoch {
		return
	}
	if epoch > e.epoch {
		e.epoch, e.all = epoch, nil
	}
	i, known := e.place(x.height)
	if known || i > 0 && e.all[i-1].newest > x.newest || i < len(e.all) && e.all[i].newest < x.newest {
		return
	}
	if e.all = slices.Insert(e.all, i, x); len(e.all) > mostExecutions {
		e.all = slices.Delete(e.all, 0, 1)
	}
}

// place is where the execution of a height is, or would be. Call with mu held.
func (e *executions) place(height int64) (i int, known bool) {
	return slices.BinarySearchFunc(e.all, height, func(x execution, height int64) int { return cmp.Compare(x.height, height) })
}
