package evm

// An adaptive finds out how much of something an endpoint gives. That depends on the
// plan and on the logs there are, and each provider says it in its own words, so
// it is tried out: half as much after every failure, twice as much after a
// success. A size that never succeeded before it failed is a ceiling. It is
// tried again after a run of successes below it, a longer one each time.
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
