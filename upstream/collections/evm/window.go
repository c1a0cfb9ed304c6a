package evm

// A window is the number of blocks in one request to an endpoint: blocks per call and calls per request. If the endpoint accepts
// only few blocks per call, several calls share a request and its headers.
type window struct {
	blocks adaptive // of one call
	calls  adaptive // in one request
}

// Limits of calls that share a request: their number, and their blocks in total.
const (
	maxLogCalls = 16
	maxPacked   = 1000
)

func newWindow(limit int64) window {
	return window{blocks: adaptive{size: limit, most: limit, patience: 1}, calls: adaptive{size: 1, most: 1, patience: 1}}
}

// perRequest returns the number of calls in a request. A single call is enough to test a new number of blocks.
func (w *window) perRequest() int64 {
	if w.blocks.run == 0 {
		return 1
	}
	return w.calls.size
}

// span returns the number of blocks in a request.
func (w *window) span() int64 { return w.blocks.size * w.perRequest() }

// fits records that a full request was answered. The calls grow if the blocks do not.
func (w *window) fits() {
	grown := w.blocks.fits(w.perRequest())
	w.calls.most = max(min(maxPacked/w.blocks.size, maxLogCalls), 1)
	if w.calls.size = min(w.calls.size, w.calls.most); !grown {
		w.calls.fits(1)
	}
}

// shrink records that a request for a number of blocks was refused, and makes later requests smaller. It reports whether they can be
// smaller. It reduces the calls first.
func (w *window) shrink(asked int64) bool {
	if calls := (asked + w.blocks.size - 1) / w.blocks.size; calls > 1 {
		w.calls.size = calls
		return w.calls.shrink()
	}
	if asked > 1 {
		w.blocks.size = asked
	}
	return asked > 1 && w.blocks.shrink()
}

// An adaptive learns a size that an endpoint accepts. It halves the size after a failure and doubles it after a success. A size
// that failed without a success is a ceiling. It is tried again after a number of successes below it, which grows each time.
type adaptive struct {
	size, most int64
	ceiling    int64 // 0 if there is none
	run        int64 // successes since the size last changed
	patience   int64 // successes before the ceiling is tried again
	raised     bool  // the size has grown and was not used since
}

const maxPatience = 4096

// fits records successes and reports whether the size has grown.
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

// shrink halves the size after a failure. It reports whether the size was larger than one.
func (t *adaptive) shrink() bool {
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
