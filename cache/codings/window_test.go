package codings_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream/expect"
)

// Encoders are reused, and no memory limit includes them, so they must not hold a whole body.
func TestEncoderMemoryIsBounded(t *testing.T) {
	const most = 8 << 20 // of a body of 16 MiB
	body := []byte(strings.Repeat("0123456789abcdef", 1<<20))
	for coding := codings.Gzip; coding < codings.Count; coding++ {
		for _, quick := range []bool{false, true} {
			t.Run(fmt.Sprint(codings.Names[coding], " quick ", quick), func(t *testing.T) {
				var before, after runtime.MemStats
				e := codings.NewEncoders()
				runtime.ReadMemStats(&before)
				encoded, ok := e.Encode(coding, body, quick, true)
				runtime.ReadMemStats(&after)
				if !ok || len(encoded) == 0 {
					t.Fatalf("Encode = %d bytes, %t; want more than 0, true", len(encoded), ok)
				}
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
					t.Errorf("allocated bytes = %d for a body of %d, want at most %d", allocated, len(body), most)
				}
			})
		}
	}
}

func TestEncodedBodyIsDecodedToTheBody(t *testing.T) {
	e := codings.NewEncoders()
	for coding, decode := range map[codings.Coding]func(io.Reader) (io.Reader, error){
		codings.Gzip:   func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		codings.Zstd:   func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
		codings.Brotli: func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	} {
		for _, quick := range []bool{false, true} {
			for _, body := range []string{strings.Repeat("first", 1000), "second"} { // by the same encoder
				encoded, _ := e.Encode(coding, []byte(body), quick, true)
				r := expect.Value(decode(bytes.NewReader(encoded)))(t)
				expect.Equal(t, string(expect.Value(io.ReadAll(r))(t)), body, "body in %s, quick %t", codings.Names[coding], quick)
			}
		}
	}
}

func TestReusedEncoderAllocatesLittleBeyondItsOutput(t *testing.T) {
	const times = 20
	body := []byte(strings.Repeat("0123456789abcdef", 1<<11))
	for i := range body {
		body[i] ^= byte(rand.Uint32()) & 15
	}
	for coding := codings.Gzip; coding < codings.Count; coding++ {
		t.Run(codings.Names[coding], func(t *testing.T) {
			e := codings.NewEncoders()
			encoded, _ := e.Encode(coding, body, true, true)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				e.Encode(coding, body, true, true)
			}
			runtime.ReadMemStats(&after)
			if allocated, most := (after.TotalAlloc-before.TotalAlloc)/times, uint64(len(encoded))*5/4+4<<10; allocated > most {
				t.Errorf("allocated bytes = %d for an output of %d, want at most %d", allocated, len(encoded), most)
			}
		})
	}
}

// The limit holds for all codings and qualities together.
func TestNumberOfEncodersIsLimited(t *testing.T) {
	const most = 48 << 20 // sixteen encoders of each kind would take 200 MiB
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	before := expect.LiveHeap()
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
	if bytes := expect.LiveHeap() - before; bytes > most {
		t.Errorf("bytes held by encoders = %d, want at most %d", bytes, most)
	}
	runtime.KeepAlive(e)
}

func TestBodyIsNotEncodedWhileAllEncodersAreBusy(t *testing.T) {
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
				t.Errorf("Encode without a free encoder = %q, want nil", encoded)
			}
			return
		}
	}
	t.Error("Encode = true for 20s while all encoders are busy, want false")
}

func TestLongBodiesAreCostlyInBrotli(t *testing.T) {
	for size, want := range map[int]bool{codings.Long - 1: false, codings.Long: true} {
		for coding := range codings.Count {
			expect.Equal(t, coding.Costly(size), (want && coding == codings.Brotli), "Costly(%s, %d)", codings.Names[coding], size)
		}
	}
}
