package upstream

import (
	"context"
	"time"
)

// Wake wakes the receiver of a channel with capacity for one value, unless a value already waits there.
func Wake(receiver chan<- struct{}) {
	select {
	case receiver <- struct{}{}:
	default:
	}
}

// Sleep waits for d. If ctx ends first, it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
