package node

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestTransactionsByGRPCLeaveMemoryForReads(t *testing.T) {
	t.Parallel()
	memory := account.New(128<<20, nil)
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	n.gate = make(chan struct{})
	p := runGRPC(t, Options{Settings: Settings{InFlight: 16, Timeout: time.Minute}, Memory: memory.Upstream()}, n.address)
	waitForGRPC(t, p, 0, "ok")
	var all sync.WaitGroup
	defer all.Wait()
	defer close(n.gate)
	for range 12 {
		all.Go(func() {
			if _, err := invoke(t, p, aTx, AtTip); err != nil {
				t.Error(err)
			}
		})
	}
	expect.EventuallyEqual(t, "twelve transactions in flight", func() int { return n.calls(aTx) }, 12)
	if free := memory.Upstream().Free(96 << 20); free < 64<<20 {
		t.Errorf("free memory = %d bytes, want at least 64 MiB of 96", free)
	}
}

func TestLongGRPCResponseIsForgotten(t *testing.T) {
	t.Parallel()
	memory := account.New(64<<20, nil)
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	n.change(func() { n.reply = make([]byte, 8<<20) })
	p := runGRPC(t, Options{Settings: Settings{Timeout: time.Minute}, Memory: memory.Upstream()}, n.address)
	waitForGRPC(t, p, 0, "ok")
	call := func() {
		if _, err := invoke(t, p, aMethod, AtTip); err != nil {
			t.Error(err)
		}
	}
	call()
	n.change(func() { n.reply = nil })
	for range 200 {
		call()
	}
	before, gate := n.calls(aMethod), make(chan struct{})
	n.change(func() { n.gate = gate })
	var blocked sync.WaitGroup
	defer blocked.Wait()
	defer close(gate)
	blocked.Go(call)
	expect.EventuallyAtLeast(t, "a call in flight", func() int { return n.calls(aMethod) }, before+1)
	if reserved := memory.Used(); reserved > 1<<20 {
		t.Errorf("memory reserved for a short response = %d bytes, want at most 1 MiB", reserved)
	}
}

func TestGRPCResponseIsReserved(t *testing.T) {
	t.Parallel()
	memory := account.New(8<<20, nil)
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{Memory: memory.Upstream()}, n.address)
	waitForGRPC(t, p, 0, "ok")
	long := func(size int) string { return fmt.Sprint("/a.Service/Long", size) }
	for _, tt := range []struct {
		size  int
		calls int // so far
	}{{100_000, 1}, {3 << 20, 2}, {3 << 20, 3}} {
		a, err := invoke(t, p, long(tt.size), AtTip)
		if err != nil || len(a.Body) != tt.size {
			t.Fatalf("Fetch of %d bytes = %v, or another length", tt.size, err)
		}
		expect.Equal(t, n.calls(long(tt.size)), tt.calls, "calls for %d bytes", tt.size)
	}
	_, err := invoke(t, p, long(7<<20), AtTip)
	if upstream.KindOf(err) != upstream.Overloaded || !errors.Is(err, account.ErrFull) {
		t.Errorf("Fetch of a response larger than the memory = %v, want an overload", err)
	}
	if p.endpoints()[0].grpcServer.outage.Failing() {
		t.Error("the lack of memory counts as a failure of the node, want it ignored")
	}
	if !memory.Reserve(account.Streams, 4<<20) {
		t.Fatal("Reserve = false, want true")
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed int
	for range 4 { // 3 MiB each, and one fits
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
		t.Errorf("Fetch of a short response after %d refused long ones = %v, want an answer", failed, err)
	}
	expect.Equal(t, memory.Used(), 4<<20, "memory reserved at the end")
}

func TestCompressedGRPCResponseMayBeLong(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1", grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		_ = grpc.SetSendCompressor(s.Context(), "gzip")
		return next(srv, s)
	}))
	p := runGRPC(t, Options{Settings: Settings{Timeout: time.Minute}, maxBody: 5 << 20}, n.address)
	waitForGRPC(t, p, 0, "ok")
	if a, err := invoke(t, p, fmt.Sprint("/a.Service/Long", 5<<20), AtTip); err != nil || len(a.Body) != 5<<20 {
		t.Errorf("Fetch of 5 MiB = %.200v, %v; want the response", a, err)
	}
	_, err := invoke(t, p, fmt.Sprint("/a.Service/Long", 5<<20+1), AtTip)
	expect.ErrorIs(t, err, errTooLarge, "Fetch of more than the limit")
}

// A simulation, for example, is not repeated, but later ones of the method have enough memory.
func TestLongResponseToAWriteRaisesTheLimitOfLaterOnes(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{Memory: account.New(32<<20, nil).Upstream()}, n.address)
	waitForGRPC(t, p, 0, "ok")
	method := fmt.Sprint("/a.Service/Long", 3<<20)
	for calls := 1; calls <= 2; calls++ {
		a, err := p.Fetch(t.Context(), Request{Height: AtTip, Invoke: &Invocation{Method: method, Write: true}})
		if ok := err == nil && len(a.Body) == 3<<20; ok != (calls == 2) {
			t.Errorf("success of call %d = %v (%v), want only the second one to succeed", calls, ok, err)
		}
		expect.Equal(t, n.calls(method), calls, "calls")
	}
}
