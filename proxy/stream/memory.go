package stream

import (
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// Memory reserved in addition to the texts, in bytes. A text that shares the bytes of a cache entry is reserved, too.
const (
	topicWeight  = 12 << 10 // a topic, its goroutine and rendered events
	answerWeight = 512
)

// errNoMemory is sent instead of an answer that does not fit into the memory budget.
var errNoMemory = &failure.Failure{Status: http.StatusServiceUnavailable, Public: "streamed answers use all of the memory reserved for them", Expected: true}

// reserve reserves the memory of an answer, which the caller then holds. It returns errNoMemory if there is none.
func (e *event) reserve(budget *account.Account) error {
	if !budget.Reserve(account.Events, e.weight()) {
		return errNoMemory
	}
	e.budget = budget
	e.held.Store(1)
	return nil
}

func (e *event) weight() int64 { return int64(cap(e.data)) + answerWeight }

// hold keeps an answer until release. It returns false if the answer has been released by all holders. Other events can
// always be held.
func (e *event) hold() (ok bool) {
	for e.budget != nil {
		n := e.held.Load()
		if n == 0 {
			return false
		}
		if e.held.CompareAndSwap(n, n+1) {
			break
		}
	}
	return true
}

// release undoes hold or reserve. A nil event holds nothing.
func (e *event) release() {
	if e != nil && e.budget != nil && e.held.Add(-1) == 0 {
		e.budget.Release(account.Events, e.weight()+int64(cap(e.compressed)))
	}
}

// deflated returns the data as deflate blocks, which are kept for all renderings of an answer, or nil if the budget has no room
// for them.
func (e *event) deflated() []byte {
	if e.budget == nil {
		return stored(nil, e.data)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.compressed == nil {
		blocks := deflate(e.data)
		if !e.budget.Reserve(account.Events, int64(cap(blocks))) {
			return nil
		}
		e.compressed = blocks
	}
	return e.compressed
}
