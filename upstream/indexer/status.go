package indexer

import (
	"sync"

	"github.com/tipcache/tipcache/upstream/ledger"
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
	return s
}

// Left is how many blocks are not yet taken over, as far as known.
func (s Status) Left() int64 { return max(0, s.Head-max(s.Cursor.Block, s.First-1)) }

// begun forgets an earlier run, and ended leaves what this one came to.
func (st *status) begun() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s = Status{Running: true}
}

func (st *status) ended() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Running = false
}

// at notes where the store is, and heard what the chain says.
func (st *status) at(cursor ledger.Cursor) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.s.Cursor = cursor; st.s.First == 0 && cursor.Chain != 0 {
		st.s.First = cursor.Block + 1
	}
}

func (st *status) heard(head int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Head = head
}

// halted notes why Run does not get on, and reports whether it did until now.
func (st *status) halted(err error) (first bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	first, st.s.Err = st.s.Err == nil, err
	return first
}

// resumed notes that Run gets on, and reports whether it did not until now.
func (st *status) resumed() (was bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	was, st.s.Err = st.s.Err != nil, nil
	return was
}

// begin notes the first block of a store that had none.
func (st *status) begin(first int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.First = first
}

func (st *status) moved(to ledger.Cursor, logs int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Cursor, st.s.Logs = to, st.s.Logs+int64(logs)
}

func (st *status) stopped(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s.Err, st.s.Ended = err, true
}
