package codings_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/expect"
)

// Encoders are kept, and what they hold counts in no bound of memory: of a long body each keeps
// what its window spans, not the body.
func TestEncoderMemoryIsBounded(t *testing.T) {
	const most = 8 << 20 // beside what it made, and copies of that
	body := []byte(strings.Repeat("0123456789abcdef", 1<<20))
	for coding := codings.Gzip; coding < codings.Count; coding++ {
		for _, quick := range []bool{false, true} {
			t.Run(fmt.Sprint(codings.Names[coding], " quick ", quick), func(t *testing.T) {
				var before, after runtime.MemStats
				e := codings.NewEncoders()
				runtime.ReadMemStats(&before)
				made, ok := e.Encode(coding, body, quick, true)
				runtime.ReadMemStats(&after)
				if !ok || len(made) == 0 {
					t.Fatal("output is empty")
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > most {
					t.Errorf("it took %d KiB for a body of %d", took>>10, len(body)>>10)
				}
			})
		}
	}
}

// A body that was asked for once leaves no garbage of its own size behind.
func TestReusedEncoderAllocatesLittleBeyondItsOutput(t *testing.T) {
	const times = 20
	body := []byte(strings.Repeat("0123456789abcdef", 1<<11))
	for i := range body {
		body[i] ^= byte(rand.Uint32()) & 15
	}
	for coding := codings.Gzip; coding < codings.Count; coding++ {
		t.Run(codings.Names[coding], func(t *testing.T) {
			e := codings.NewEncoders()
			made, _ := e.Encode(coding, body, true, true)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				e.Encode(coding, body, true, true)
			}
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc) / times; took > uint64(len(made))*5/4+4<<10 {
				t.Errorf("%d bytes for %d", took, len(made))
			}
		})
	}
}

// Whatever kinds are wanted in turn and at once, few encoders are held.
func TestEncodersAreFew(t *testing.T) {
	const most = 48 << 20 // though sixteen of each kind would take 200 MiB
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	e := codings.NewEncoders()
	body := []byte(strings.Repeat("0123456789abcdef", 1<<14))
	for range 3 {
		var all sync.WaitGroup
		for coding := codings.Gzip; coding < codings.Count; coding++ {
			for i := range 32 {
				all.Go(func() { e.Encode(coding, body, i%2 == 0, true) })
			}
		}
		all.Wait()
	}
	if took := held() - before; took > most {
		t.Errorf("%d KiB are held", took>>10)
	}
	runtime.KeepAlive(e)
}

func TestBodyIsNotEncodedWhileAllPlacesAreTaken(t *testing.T) {
	encoders := codings.NewEncoders()
	body := []byte(strings.Repeat("0123456789abcdef", 1<<16))
	var working sync.WaitGroup
	defer working.Wait()
	var done atomic.Bool
	defer done.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for !done.Load() {
				if _, ok := encoders.Encode(codings.Brotli, body, false, true); !ok {
					t.Error("Encode = false with wait, want true")
				}
			}
		})
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if encoded, ok := encoders.Encode(codings.Gzip, []byte("x"), true, false); !ok {
			if encoded != nil {
				t.Errorf("Encode = %q without a place, want nil", encoded)
			}
			return
		}
	}
	t.Error("Encode = true for 20s while all places are taken, want false")
}

func TestLongBodiesAreCostlyInBrotli(t *testing.T) {
	for size, want := range map[int]bool{codings.Long - 1: false, codings.Long: true} {
		for coding := range codings.Count {
			expect.Equal(t, coding.Costly(size), (want && coding == codings.Brotli), "Costly(%s, %d)", codings.Names[coding], size)
		}
	}
}
