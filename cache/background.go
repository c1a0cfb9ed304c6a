package cache

import "context"

// revalidate has a stale entry read anew by a flight in the background, unless
// that is under way, failed a moment ago, or too many are under way.
func (r *request) revalidate(ctx context.Context, at *slot) {
	if at.renewing.Load() || at.resting(r.c.o.Now()) || !at.renewing.CompareAndSwap(false, true) {
		return
	}
	if r.c.background.Add(1) > int64(r.c.o.MaxBackground) || !r.c.begin() {
		r.c.background.Add(-1)
		r.c.counts.skipped.Add(1)
		at.renewing.Store(false)
		return
	}
	go func() {
		defer r.c.tasks.Done()
		defer r.c.background.Add(-1)
		_, _, _ = r.unattended(inBackground(ctx), at) // the next caller sees what became of it
	}()
}

// unattended is a flight for an entry that is marked as renewing, which no caller waits for. own
// tells whether it was not a caller's after all.
func (r *request) unattended(ctx context.Context, at *slot) (l flightResult, own bool, err error) {
	defer at.renewing.Store(false)
	landed, begun := flight{request: r}.start(ctx)
	select {
	case end := <-landed:
		return end.Val.(flightResult), begun.Load(), end.Err //nolint:forcetypeassert // a flight's
	case <-r.c.life.Done():
		return l, true, errClosed
	}
}
