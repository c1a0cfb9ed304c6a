package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// order queues requests for slots and records the order of their turns.
type order struct {
	slots *Slots
	mu    sync.Mutex
	names []string
}

// newSlots returns a fixed number of slots.
func newSlots(slots int, maxWait time.Duration) *Slots {
	return New(Options{Limit: slots, MaxWait: maxWait})
}

// costOf returns Scan if the name contains one of the characters of scans.
func costOf(name, scans string) Cost {
	if strings.ContainsAny(name, scans) {
		return Scan
	}
	return Page
}

// enter queues a request that holds its slot for a second, or for ten if it is a scan.
func (l *order) enter(name string, r Request) {
	hold := time.Second
	if r.Cost == Scan {
		hold = 10 * time.Second
	}
	go func() {
		turn, err := l.slots.Acquire(context.Background(), r)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.names = append(l.names, name)
		l.mu.Unlock()
		time.Sleep(hold)
		turn.End(true)
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
		{"the waiting background gets every fourth slot", 1, "aXYbcdefgh", "abcdXefgYh"},
		{"one scan at a time, which delays no other request", 2, "strab", "srabt"},
		{"a background scan waits for the foreground scan", 2, "sSab", "sabS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &order{slots: newSlots(tt.slots, time.Hour)}
				for _, c := range strings.Split(tt.enter, "") {
					l.enter(c, Request{Cost: costOf(c, "stS"), Background: c == strings.ToUpper(c)})
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				expect.NoDiff(t, strings.Join(l.names, ""), tt.want, "order")
			})
		})
	}
}

func TestClientsTakeTurns(t *testing.T) {
	tests := []struct {
		name  string
		slots int
		enter string // client and name of each request, s to u are scans, m and n misses; a dash is a second
		want  string
	}{
		{"a client does not wait for all requests of another", 1, "A1 A2 A3 A4 A5 B6", "162345"},
		{"two flooding clients alternate", 1, "A1 A2 A3 A4 B5 B6 B7", "1526374"},
		{"a new client precedes clients that had turns", 1, "A1 B2 A3 B4 A5 B6 C7", "1273456"},
		{"a client with sequential requests does not", 1, "A1 A2 A3 A4 B5 - B6 - B7", "1526374"},
		{"new clients get three turns of four", 1, "A0 A1 A2 B3 C4 D5 E6 F7 G8 H9", "0345167829"},
		{"misses precede the client's other requests", 1, "A1 A2 A3 Am An B4", "14mn23"},
		{"misses get three turns of four", 1, "A1 A2 A3 Am Am Am Am Am", "1mmm2mm3"},
		{"a waiting scan delays neither its client nor others", 2, "As At A1 Bu B2", "s12tu"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &order{slots: newSlots(tt.slots, time.Hour)}
				for _, step := range strings.Fields(tt.enter) {
					if step == "-" {
						time.Sleep(time.Second)
						synctest.Wait()
						continue
					}
					l.enter(step[1:], Request{Client: step[:1], Cost: costOf(step, "stu"), Miss: strings.ContainsAny(step, "mn")})
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				expect.NoDiff(t, strings.Join(l.names, ""), tt.want, "order")
				expect.Equal(t, len(l.slots.foreground.lines), 0, "lines of finished clients")
			})
		})
	}
}

func TestOtherRequestsOfAClientStayQueuedWhenOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &order{slots: newSlots(1, time.Hour)}
		l.enter("1", Request{Client: "A"})
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := l.slots.Acquire(ctx, Request{Client: "B"})
			left <- err
		}()
		synctest.Wait()
		l.enter("3", Request{Client: "B"})
		leave()
		expect.ErrorIs(t, <-left, context.Canceled, "Acquire of the request that left")
		time.Sleep(time.Minute)
		synctest.Wait()
		expect.NoDiff(t, strings.Join(l.names, ""), "13", "order")
	})
}

func TestConcurrencyStaysWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &order{slots: newSlots(4, time.Hour)}
		for range 10 {
			l.enter("page", Request{})
		}
		expect.NoDiff(t, l.slots.Load(), Load{4, 6, 4}, "load")
		time.Sleep(time.Minute)
		expect.NoDiff(t, l.slots.Load(), Load{0, 0, 4}, "load after all requests ended")
	})
}

func TestAcquireFailsAfterMaxWait(t *testing.T) {
	tests := []struct {
		name     string
		request  Request
		deadline time.Duration
		want     error
		after    time.Duration
	}{
		{"a foreground request leaves the queue", Request{}, time.Hour, ErrLate, 2 * time.Second},
		{"the context of a foreground request ends sooner", Request{}, time.Second, context.DeadlineExceeded, time.Second},
		{"a background request stays until its context ends", Request{Background: true}, time.Minute, context.DeadlineExceeded, time.Minute},
		{"a scan stays until its context ends", Request{Cost: Scan}, time.Minute, context.DeadlineExceeded, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSlots(1, 2*time.Second)
				turn := expect.Value(l.Acquire(t.Context(), Request{}))(t)
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				_, err := l.Acquire(ctx, tt.request)
				if !errors.Is(err, tt.want) || time.Since(start) != tt.after {
					t.Errorf("Acquire = %v after %s, want %v after %s", err, time.Since(start), tt.want, tt.after)
				}
				expect.Equal(t, l.Load().Waiting, 0, "waiting requests")
				turn.End(false)
				expect.Value(l.Acquire(t.Context(), Request{}))(t)
			})
		})
	}
}

func TestTurnThatComesAsTheContextEndsIsPassedOn(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := newSlots(1, time.Hour)
			turn := expect.Value(l.Acquire(t.Context(), Request{}))(t)
			ctx, leave := context.WithCancel(t.Context())
			first, next := make(chan error, 1), make(chan error, 1)
			for ctx, end := range map[context.Context]chan error{ctx: first, t.Context(): next} {
				go func() {
					_, err := l.Acquire(ctx, Request{})
					end <- err
				}()
				synctest.Wait()
			}
			leave()
			turn.End(true)
			expect.ErrorIs(t, <-first, context.Canceled, "Acquire of the request that left")
			expect.NoError(t, <-next)
		})
	}
}

// A second scan would delay clients' scans.
func TestScanThatNoClientWaitsForRunsAlone(t *testing.T) {
	l := newSlots(4, time.Minute)
	scan := Request{Cost: Scan, Ahead: true}
	turn := expect.Value(l.Acquire(t.Context(), scan))(t)
	if _, err := l.Acquire(t.Context(), scan); !errors.Is(err, upstream.ErrYielded) {
		t.Errorf("Acquire of a second scan = %v, want %v", err, upstream.ErrYielded)
	}
	turn.End(false)
}

// A read ahead takes a slot only if another one remains, and it does not queue.
func TestReadAheadTakesOnlyASpareSlot(t *testing.T) {
	ahead := Request{Ahead: true}
	for name, tt := range map[string]struct {
		slots, held, queued int
		want                bool
	}{
		"all free":              {4, 0, 0, true},
		"two free":              {4, 2, 0, true},
		"one free":              {4, 3, 0, false},
		"none free and a queue": {4, 4, 3, false},
		"one slot":              {1, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSlots(tt.slots, time.Minute)
				turns := make(chan *Turn, tt.held+tt.queued)
				for range tt.held + tt.queued {
					go func() {
						turn, _ := l.Acquire(t.Context(), Request{})
						turns <- turn
					}()
				}
				synctest.Wait()
				expect.Equal(t, l.Spare(), tt.want, "Spare (was %t)", !l.Spare())
				_, err := l.Acquire(t.Context(), ahead)
				if ok := err == nil; ok != tt.want || !ok && !errors.Is(err, upstream.ErrYielded) {
					t.Errorf("Acquire of a read ahead = %v, want a slot %t, or otherwise %v", err, tt.want, upstream.ErrYielded)
				}
				expect.Equal(t, l.Load().Waiting, tt.queued, "waiting requests")
				for range tt.queued { // until they time out
					(<-turns).End(false)
				}
				synctest.Wait()
			})
		})
	}
}
