package conn

import (
	"context"
	"sync"
	"testing"
	"time"
)

// A search for idle connections may hold the lock for longer than recheck on a machine without free CPU.
func TestPauseEndsIfTheTimerFiresBeforeItWaits(t *testing.T) {
	l := &Listener{o: Options{Settings: Settings{Most: 1}}, slots: map[*slot]struct{}{{}: {}}, ended: context.Background()}
	l.released = sync.NewCond(&l.mu)
	ended := make(chan struct{})
	l.mu.Lock()
	go func() {
		l.pause()
		close(ended)
	}()
	time.Sleep(2 * recheck)
	l.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("pause still waits after 10 s, want recheck")
	}
}
