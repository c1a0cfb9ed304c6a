package indexer

import (
	"sync"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// Status is how far an Indexer has come. The zero Status is that of one that
// has not begun; of one that lost its turn the last one stays.
type Status struct {
	Running bool          // it has its turn
	First   int64         // block this run began at
	Cursor  ledger.Cursor // the last block taken over
	Head    int64         // the newest block there is, as far as known
	Logs    int64         // events taken over in this run
	Window  int64         // blocks asked for in one call
	Err     error         // what ended Run, or why it does not get on at present
	Ended   bool          // Run ended for that, and to run it again does not help
}

type status struct {
	mu sync.Mutex
	s  Status
}

// Status returns how far the indexer has come.
func (x *Indexer) Status() Status {
	_, window := x.pool.Window()
	x.status.mu.Lock()
	defer x.status.mu.Unlock()
	s := x.status.s
	s.Window = window
	if trouble := x.pool.Trouble(x.o.Grace); trouble != nil && s.Running {
		s.Err = trouble
	}
	return s
}

// Left is how many blocks are not yet taken over, as far as known.
func (s Status) Left() int64 { return max(0, s.Head-max(s.Cursor.Block, s.First-1)) }

// change notes what has changed.
func (st *status) change(note func(*Status)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	note(&st.s)
}

// halt notes why Run does not get on, and tells the log unless it did not before.
func (x *Indexer) halt(err error) {
	first := false
	x.status.change(func(s *Status) { first, s.Err = s.Err == nil, err })
	if first {
		x.log.Warn("indexing halts", "error", err)
	}
}

// resume notes that Run gets on, and tells the log unless it did before.
func (x *Indexer) resume() {
	halted := false
	x.status.change(func(s *Status) { halted, s.Err = s.Err != nil, nil })
	if halted {
		x.log.Info("indexing goes on")
	}
}
