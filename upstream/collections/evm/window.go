package evm

// window is how many blocks an endpoint is asked for at once: so many in one call, in so many calls
// of one request. Calls share a request, with its way and the blocks' headers, where the endpoint
// gives few blocks in each.
type window struct {
	blocks adaptive // of one call
	calls  adaptive // in one request
}

// Several calls share a request while they are for no more than maxPacked blocks.
const (
	maxLogCalls = 16
	maxPacked   = 1000
)

func newWindow(most int64) window {
	return window{blocks: adaptive{size: most, most: most, patience: 1}, calls: adaptive{size: 1, most: 1, patience: 1}}
}

// perRequest is how many calls there are in a request. One is enough to see
// whether so many blocks are given.
func (w *window) perRequest() int64 {
	if w.blocks.run == 0 {
		return 1
	}
	return w.calls.size
}

// span is how many blocks are asked for at once.
func (w *window) span() int64 { return w.blocks.size * w.perRequest() }

// fits notes that all of it was given. The calls grow when the blocks do not.
func (w *window) fits() {
	grown := w.blocks.fits(w.perRequest())
	w.calls.most = max(min(maxPacked/w.blocks.size, maxLogCalls), 1)
	if w.calls.size = min(w.calls.size, w.calls.most); !grown {
		w.calls.fits(1)
	}
}

// refused notes that so many blocks, at most the span, were not given, and reports whether there is
// less to ask for, below that from now on. Calls are made fewer first.
func (w *window) refused(asked int64) bool {
	if calls := (asked + w.blocks.size - 1) / w.blocks.size; calls > 1 {
		w.calls.size = calls
		return w.calls.refused()
	}
	if asked > 1 {
		w.blocks.size = asked
	}
	return asked > 1 && w.blocks.refused()
}

// An adaptive finds out how much of something an endpoint gives, which each provider says in its
// own words: half as much after every failure, twice as much after a success. A size that never
// succeeded before it failed is a ceiling. It is tried again after a run of successes below it, a
// longer one each time.
type adaptive struct {
	size, most int64
	ceiling    int64 // 0: none
	run        int64 // successes since the size last changed
	patience   int64 // successes before the ceiling is tried again
	raised     bool  // the size has grown and was not tried since
}

const maxPatience = 4096

// fits notes successes and reports whether the size has grown.
func (t *adaptive) fits(successes int64) (grown bool) {
	t.raised = false
	if t.size >= t.ceiling {
		t.ceiling, t.patience = 0, 1
	}
	next := min(2*t.size, t.most)
	if t.run += successes; t.ceiling == 0 || next < t.ceiling || t.run >= t.patience {
		if next > t.size {
			t.size, t.run, t.raised = next, 0, true
			return true
		}
	}
	return false
}

// refused reports whether there is less to ask for.
func (t *adaptive) refused() bool {
	t.raised = false
	if t.size == 1 {
		return false
	}
	if t.run == 0 {
		t.ceiling, t.patience = t.size, min(2*t.patience, maxPatience)
	}
	t.size, t.run = t.size/2, 0
	return true
}
