package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// line queues requests at a limiter, and notes in what order they get turns.
type line struct {
	limiter *limiter
	mu      sync.Mutex
	order   []string
}

// enter queues one request. Once it has a slot it holds it for a second, a
// scan for ten.
func (l *line) enter(name string, cost Cost, background bool) {
	hold := time.Second
	if cost == Scan {
		hold = 10 * time.Second
	}
	go func() {
		if l.limiter.acquire(context.Background(), cost, background) != nil {
			return
		}
		l.mu.Lock()
		l.order = append(l.order, name)
		l.mu.Unlock()
		time.Sleep(hold)
		l.limiter.release(cost)
	}()
	synctest.Wait()
}

func TestTurnsAreTakenInOrder(t *testing.T) {
	tests := []struct {
		name  string
		slots int
		enter string // lower case foreground, upper case background, s and S scans
		want  string
	}{
		{"oldest first", 1, "abcd", "abcd"},
		{"foreground before background", 1, "aBCde", "adeBC"},
		{"every fourth slot is the background's while it waits", 1, "aXYbcdefgh", "abcdXefgYh"},
		{"one scan at a time, and nobody waits behind it", 2, "strab", "srabt"},
		{"a scan of the background waits for the one before it", 2, "sSab", "sabS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &line{limiter: newLimiter(tt.slots, 1, time.Hour)}
				for _, c := range strings.Split(tt.enter, "") {
					cost := Cheap
					if strings.ContainsAny(c, "stS") {
						cost = Scan
					}
					l.enter(c, cost, c == strings.ToUpper(c))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, strings.Join(l.order, "")); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestNoMoreRunThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{limiter: newLimiter(4, 1, time.Hour)}
		for range 10 {
			l.enter("page", Page, false)
		}
		if inFlight, waiting := l.limiter.load(); inFlight != 4 || waiting != 6 {
			t.Errorf("%d in flight, %d waiting; want 4 and 6", inFlight, waiting)
		}
		time.Sleep(time.Minute)
		if inFlight, waiting := l.limiter.load(); inFlight != 0 || waiting != 0 {
			t.Errorf("%d in flight, %d waiting after all have gone", inFlight, waiting)
		}
	})
}

func TestPatienceEnds(t *testing.T) {
	tests := []struct {
		name       string
		background bool
		deadline   time.Duration
		want       error
		after      time.Duration
	}{
		{"a foreground request leaves the queue", false, time.Hour, errQueue, 2 * time.Second},
		{"its context may end sooner", false, time.Second, context.DeadlineExceeded, time.Second},
		{"a background request stays until its context ends", true, time.Minute, context.DeadlineExceeded, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(1, 1, 2*time.Second)
				if err := l.acquire(t.Context(), Cheap, false); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				err := l.acquire(ctx, Cheap, tt.background)
				if !errors.Is(err, tt.want) || time.Since(start) != tt.after {
					t.Errorf("error %v after %s, want %v after %s", err, time.Since(start), tt.want, tt.after)
				}
				if _, waiting := l.load(); waiting != 0 {
					t.Errorf("%d still wait", waiting)
				}
				l.release(Cheap)
				if err := l.acquire(t.Context(), Cheap, false); err != nil {
					t.Errorf("the slot is lost: %v", err)
				}
			})
		})
	}
}
