package cache

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	quiet     = 15 * time.Second       // silence on the subscription before it is pinged; as much again and it is dead
	resubWait = 200 * time.Millisecond // rest before subscribing again
)

// wake wakes flights that wait for another replica's lease. A flight is the only
// one of its key, so a key has one channel at most. It carries whether to ask the
// shared store again; false means that the other replica failed. The same
// messages tell of purges.
type wake struct {
	memory  *memory // to purge
	mu      sync.Mutex
	waiting map[string]chan bool
}

func newWake(m *memory) *wake { return &wake{memory: m, waiting: make(map[string]chan bool)} }

func (w *wake) join(key string) <-chan bool {
	woken := make(chan bool, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[key] = woken
	return woken
}

func (w *wake) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, key)
}

// call wakes the flight of one key.
func (w *wake) call(key string, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.waiting[key], again)
}

// callAll has all flights ask again.
func (w *wake) callAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, woken := range w.waiting {
		tell(woken, true)
	}
}

// tell does not wait: a flight that has a message will ask anyway.
func tell(woken chan<- bool, again bool) {
	select {
	case woken <- again:
	default:
	}
}

// listen receives the messages of one channel until ctx ends, through all
// failures of the shared store.
func (w *wake) listen(ctx context.Context, rdb redis.UniversalClient, channel string) {
	for ctx.Err() == nil {
		w.receive(ctx, rdb, channel)
		select {
		case <-time.After(resubWait):
		case <-ctx.Done():
		}
	}
}

// receive subscribes once, and receives until the subscription fails.
func (w *wake) receive(ctx context.Context, rdb redis.UniversalClient, channel string) {
	sub := rdb.Subscribe(ctx, channel)
	defer sub.Close()
	// A read from a socket does not end with ctx, but with the socket.
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	for pinged := false; ; {
		msg, err := sub.ReceiveTimeout(ctx, quiet)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !pinged:
			pinged = true
			if sub.Ping(ctx) != nil {
				return
			}
		case err != nil:
			return
		default:
			pinged = false
			w.hear(msg)
		}
	}
}

func (w *wake) hear(msg any) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		// Messages sent before this one went unheard.
		w.callAll()
	case *redis.Message:
		if len(msg.Payload) > 0 {
			w.obey(msg.Payload[0], msg.Payload[1:])
		}
	}
}

// obey reads one message: a mark and what it is about.
func (w *wake) obey(mark byte, about string) {
	if mark != purgeMark {
		w.call(about, mark == '+')
		return
	}
	if sel, err := readSelection(about); err == nil {
		w.memory.purge(sel)
	}
}
