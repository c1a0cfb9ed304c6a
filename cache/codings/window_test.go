package codings_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/cache/codings"
)

// Encoders are pooled, and what they hold counts in no bound: of a long body each keeps
// what its window spans, not the body.
func TestAnEncoderHoldsAFewMegabytesWhateverItEncodes(t *testing.T) {
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
					t.Fatal("nothing was made")
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > most {
					t.Errorf("it took %d KiB for a body of %d", took>>10, len(body)>>10)
				}
			})
		}
	}
}
