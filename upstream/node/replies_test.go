package node

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

func TestGRPCResponseIsReserved(t *testing.T) {
	t.Parallel()
	memory := account.New(8<<20, nil)
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{Memory: memory.Upstream()}, n.address)
	said(t, p, 0, "ok")
	long := func(size int) string { return fmt.Sprint("/a.Service/Long", size) }
	for _, tt := range []struct {
		size  int
		times int // that the node is asked
	}{{100_000, 1}, {3 << 20, 2}, {3 << 20, 3}} {
		a, err := invoke(t, p, long(tt.size), AtTip)
		if err != nil || len(a.Body) != tt.size {
			t.Fatalf("error %v or another length, want %d bytes", err, tt.size)
		}
		if times := n.times(long(tt.size)); times != tt.times {
			t.Errorf("the node was asked %d times for %d bytes, want %d", times, tt.size, tt.times)
		}
	}
	_, err := invoke(t, p, long(7<<20), AtTip)
	if upstream.KindOf(err) != upstream.Overloaded || !errors.Is(err, account.ErrFull) {
		t.Errorf("a response larger than the memory: error %v, want an overload", err)
	}
	if !memory.Reserve(account.Streams, 4<<20) {
		t.Fatal("Reserve = false, want true")
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed int
	for range 4 { // of 3 MiB each, of which one fits
		all.Go(func() {
			if _, err := invoke(t, p, long(3<<20), AtTip); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
			}
		})
	}
	all.Wait()
	if _, err := invoke(t, p, long(100_000), AtTip); err != nil {
		t.Errorf("error %v for a short response after %d long ones were refused, want an answer", err, failed)
	}
	if used := memory.Used(); used != 4<<20 {
		t.Errorf("Used = %d at the end, want %d", used, 4<<20)
	}
}
