package account_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestReservationsEndAtTheLimit(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	a := account.New(100, r)
	var seen int64
	a.Follow(func(used int64) { seen = used })
	if !a.Reserve(account.Streams, 60) || !a.Reserve(account.Upstream, 40) {
		t.Fatal("Reserve = false within the limit, want true")
	}
	if a.Reserve(account.Requests, 1) || a.Reserve(account.Upstream, 1) {
		t.Error("Reserve = true beyond the limit, want false")
	}
	if a.Used() != 100 || seen != 100 {
		t.Errorf("Used = %d and the follower saw %d, want 100", a.Used(), seen)
	}
	a.Release(account.Upstream, 40)
	if !a.Reserve(account.Requests, 20) {
		t.Error("Reserve = false for released bytes, want true")
	}
	expect.Equal(t, expect.Metric(t, r, "tipcache_memory_refused_total", "requests"), 1, "refused requests")
}

func TestKindsLeaveMemoryForUpstreams(t *testing.T) {
	for kind, most := range map[account.Kind]int64{account.Streams: 875, account.Unread: 875, account.Requests: 875, account.Lane: 500, account.Upstream: 1000} {
		a := account.New(1000, nil)
		if !a.Reserve(kind, most) || a.Reserve(kind, 1) {
			t.Errorf("%v: reservations do not end at %d bytes of 1000", kind, most)
		}
		expect.Equal(t, a.IsShort(), kind != account.Lane, "%v: IsShort with all of that in use", kind)
	}
}

func TestConcurrentReservationsLeaveNothing(t *testing.T) {
	a := account.New(1000, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if a.Reserve(account.Streams, 300) {
					a.Release(account.Streams, 300)
				}
			}
		})
	}
	all.Wait()
	expect.Equal(t, a.Used(), 0, "Used")
}

func TestBodyIsReservedAsItArrives(t *testing.T) {
	a := account.New(1<<20, nil)
	h := a.Part(account.Requests, 1<<20, 1<<20).Open("one", false)
	r, w := io.Pipe()
	read := make(chan []byte)
	go func() {
		body, err := h.ReadAll(r, 1<<19)
		if err != nil {
			t.Error(err)
		}
		read <- body
	}()
	_, _ = w.Write(make([]byte, 100))
	if used := a.Used(); used > 1024 {
		t.Errorf("Used = %d after 100 bytes, want at most 1024", used)
	}
	_, _ = w.Write(make([]byte, 100_000))
	_ = w.Close()
	if body := <-read; len(body) != 100_100 || a.Used() < 100_100 {
		t.Errorf("%d bytes are read and %d reserved, want 100100 and at least as many", len(body), a.Used())
	}
	h.Close()
	expect.Equal(t, a.Used(), 0, "Used after Close")
}

func TestClientHasAShareOfBodies(t *testing.T) {
	p := account.New(2000, nil).Part(account.Requests, 1000, 200)
	one, other, proxy := p.Open("one", false), p.Open("other", false), p.Open("proxy", true)
	for _, step := range []struct {
		hold *account.Hold
		n    int
		want error
	}{
		{one, 400, nil}, // while less than half is in use
		{one, 200, account.ErrShare},
		{other, 200, nil},
		{other, 100, account.ErrShare},
		{proxy, 350, nil},
		{proxy, 100, account.ErrFull},
	} {
		expect.ErrorIs(t, step.hold.Take(step.n), step.want, "Take(%d)", step.n)
	}
	proxy.Close()
	one.Close()
	expect.NoError(t, one.Take(200))
}

func TestShareCountsAllBodiesOfAClient(t *testing.T) {
	p := account.New(2000, nil).Part(account.Requests, 1000, 200)
	first, second, third, other := p.Open("one", false), p.Open("one", false), p.Open("one", false), p.Open("other", false)
	take := func(h *account.Hold, n int, want error) {
		t.Helper()
		expect.ErrorIs(t, h.Take(n), want, "Take(%d)", n)
	}
	take(other, 450, nil)
	take(first, 50, nil)
	take(second, 150, nil)
	take(third, 1, account.ErrShare)
	first.Close()
	take(third, 51, account.ErrShare)
	take(third, 50, nil)
	second.Close()
	take(third, 151, account.ErrShare)
	take(third, 150, nil)
}

func TestUpstreamBodiesAreReservedWhileTheyAreRead(t *testing.T) {
	a := account.New(4<<20, nil)
	body := bytes.Repeat([]byte("x"), 1<<20)
	got, err := a.Upstream().Read(bytes.NewReader(body), 0, 1<<20)
	if err != nil || !bytes.Equal(got, body) || a.Used() != 0 {
		t.Errorf("Read = %d bytes, %v, with %d reserved after it; want %d, nil, 0", len(got), err, a.Used(), len(body))
	}
	for name, tt := range map[string]struct {
		from io.Reader
		want error
	}{
		"one byte more than allowed":  {bytes.NewReader(append(body, 'x')), account.ErrTooLarge},
		"a body that is cut off":      {io.MultiReader(bytes.NewReader(body[1:]), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
		"the largest body after that": {bytes.NewReader(body), nil},
	} {
		if _, err := a.Upstream().Read(tt.from, 0, 1<<20); !errors.Is(err, tt.want) || a.Used() != 0 {
			t.Errorf("%s: Read = %v with %d reserved after it, want %v and 0", name, err, a.Used(), tt.want)
		}
	}
	endless := io.MultiReader(bytes.NewReader(make([]byte, 8<<20)), iotest.ErrReader(errors.New("all of it was read")))
	if _, err := a.Upstream().Read(endless, 0, 1<<30); !errors.Is(err, account.ErrFull) {
		t.Errorf("Read of a body larger than the account = %v, want %v", err, account.ErrFull)
	}
}

func TestNothingIsRefusedWithoutAnAccount(t *testing.T) {
	var a *account.Account
	if !a.Reserve(account.Streams, 1<<40) {
		t.Error("Reserve = false, want true")
	}
	var p *account.Part
	if body, err := p.Read(strings.NewReader("text"), 0, 10); err != nil || string(body) != "text" {
		t.Errorf("Read = %q, %v; want text, nil", body, err)
	}
}

func TestBodyOfAnnouncedSizeIsReadInOnePiece(t *testing.T) {
	a := account.New(16<<20, nil)
	body := bytes.Repeat([]byte("x"), 100_000)
	for name, tt := range map[string]struct {
		size, reserved int64
		from           io.Reader
		want           error
	}{
		"the size announced":      {100_000, 100_000, bytes.NewReader(body), nil},
		"less than announced":     {200_000, 200_000, bytes.NewReader(body), nil},
		"more than announced":     {50_000, 50_000, bytes.NewReader(body), nil},
		"more than is read ahead": {2 << 20, 16 << 10, bytes.NewReader(body), nil},
		"more than allowed":       {1 << 22, 16 << 10, bytes.NewReader(make([]byte, 3<<20+1)), account.ErrTooLarge},
	} {
		var reserved int64
		first := sync.OnceFunc(func() { reserved = a.Used() })
		got, err := a.Upstream().Read(reader(func(p []byte) (int, error) { first(); return tt.from.Read(p) }), tt.size, 3<<20)
		if !errors.Is(err, tt.want) || err == nil && !bytes.Equal(got, body) || a.Used() != 0 {
			t.Errorf("%s: Read = %d bytes, %v, with %d reserved after it; want %d, %v, 0", name, len(got), err, a.Used(), len(body), tt.want)
		}
		expect.Equal(t, reserved, tt.reserved, "%s: bytes reserved at the first read", name)
	}
	full := account.New(100_000, nil)
	if _, err := full.Upstream().Read(bytes.NewReader(body), 100_000, 1<<20); !errors.Is(err, account.ErrFull) {
		t.Errorf("Read beyond the account = %v, want %v", err, account.ErrFull)
	}
}

func TestBodyOfUnknownSizeIsRefusedWithoutMemory(t *testing.T) {
	a := account.New(10_000, nil)
	h := a.Upstream().Open("client", true)
	_, err := h.ReadAll(bytes.NewReader(make([]byte, 9_000)), 1<<20)
	if h.Close(); !errors.Is(err, account.ErrFull) || a.Used() != 0 {
		t.Errorf("ReadAll of 9,000 bytes with 7,500 free = %v, with %d reserved after it; want %v and 0", err, a.Used(), account.ErrFull)
	}
}

type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestFreeReturnsReservableBytes(t *testing.T) {
	a := account.New(1000, nil)
	p := a.Upstream() // 750
	for _, tt := range []struct{ reserved, most, want int64 }{{0, 5000, 750}, {0, 100, 100}, {200, 5000, 550}, {400, 5000, 350}, {750, 5000, 0}} {
		h := p.Open("client", true)
		expect.NoError(t, h.Take(int(tt.reserved)))
		expect.Equal(t, p.Free(tt.most), tt.want, "Free(%d) with %d bytes reserved", tt.most, tt.reserved)
		h.Close()
	}
	if !a.Reserve(account.Streams, 600) || p.Free(5000) != 400 {
		t.Errorf("Free = %d with 600 of 1000 bytes reserved by others, want 400", p.Free(5000))
	}
}

func TestRefusalsAndTheLimitAreMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	p := account.New(1000, r).Upstream()
	h := p.Open("client", true)
	defer h.Close()
	expect.ErrorIs(t, h.Take(751), account.ErrFull, "Take")
	for name, want := range map[string]float64{"tipcache_memory_refused_total": 1, "tipcache_memory_reserved_limit_bytes": 1000, "tipcache_memory_reserved_bytes": 0} {
		expect.Equal(t, expect.Metric(t, r, name), want, "%s", name)
	}
}

func TestNewTopicsLeaveMemoryForEvents(t *testing.T) {
	p := account.New(4000, nil).Events() // 1000, with shares of 250
	one, other, many := p.Open("one", false), p.Open("other", false), p.Open("", true)
	for i, step := range []struct {
		do   func(n int) error
		n    int
		want error
	}{
		{one.Start, 375, nil}, // three quarters of a half
		{one.Start, 1, account.ErrShare},
		{one.Take, 125, nil},
		{one.Take, 2, account.ErrShare},
		{other.Start, 187, nil}, // three quarters of a share
		{other.Start, 1, account.ErrShare},
		{other.Take, 63, nil},
		{other.Take, 1, account.ErrShare},
		{func(n int) error { return other.Replace(n, 100) }, 100, nil},
		{many.Start, 1, account.ErrFull}, // three quarters of the part are in use
		{many.Take, 150, nil},
		{many.Take, 1, account.ErrFull},
	} {
		expect.ErrorIs(t, step.do(step.n), step.want, "step %d: reservation of %d", i, step.n)
	}
}

func TestMovedBytesCountAgainstTheOtherClient(t *testing.T) {
	a := account.New(4000, nil)
	p := a.Events()
	moved, one, other := p.Open("one", false), p.Open("one", false), p.Open("other", false)
	expect.NoError(t, p.Open("", true).Take(600))
	expect.NoError(t, moved.Take(250))
	expect.ErrorIs(t, one.Take(1), account.ErrShare, "reservation")
	moved.Move("other", false)
	expect.NoError(t, one.Take(100))
	expect.ErrorIs(t, other.Take(1), account.ErrShare, "reservation")
	expect.Equal(t, moved.Bytes(), 250, "Bytes")
	moved.Close()
	expect.NoError(t, other.Take(1))
	one.Close()
	other.Close()
	expect.Equal(t, a.Used(), 600, "Used")
}

func TestSharedBytesCountOnlyAgainstTheShare(t *testing.T) {
	a := account.New(4000, nil)
	p := a.Events()
	shared, own := p.OpenShared("one", false), p.Open("one", false)
	expect.NoError(t, p.Open("", true).Take(600))
	expect.NoError(t, shared.Take(200))
	expect.Equal(t, a.Used(), 600, "Used")
	expect.ErrorIs(t, own.Take(100), account.ErrShare, "reservation")
	shared.Close()
	expect.NoError(t, own.Take(100))
	expect.Equal(t, a.Used(), 700, "Used")
}
