package record

import (
	"math/rand/v2"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestTimesAreFormattedAsRFC3339(t *testing.T) {
	zone := time.FixedZone("", -5*3600-1800)
	for range 1000 {
		at := time.Unix(rand.Int64N(4e9), rand.Int64N(1e9)).In(zone)
		at = at.Truncate([]time.Duration{1, time.Microsecond, 10 * time.Millisecond, time.Second}[rand.IntN(4)])
		if got, want := string(appendTime([]byte("x"), at)), "x"+at.Format(time.RFC3339Nano); got != want {
			t.Fatalf("appendTime = %s, want %s", got, want)
		}
	}
}

func TestDecimalsAreFormattedAsByStrconv(t *testing.T) {
	for _, n := range []int64{0, 1, 10, 100, 999, 1000, 1001, 1010, 123456, 1e6, 1e9 + 1} {
		if got, want := string(appendDecimal(nil, n, 1000)), strconv.FormatFloat(float64(n)/1000, 'f', -1, 64); got != want {
			t.Errorf("appendDecimal(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestLongTextsAreCutInTheLog(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	r := httptest.NewRequestWithContext(t.Context(), long, "/"+long+"?"+long, nil)
	r.Header.Set("User-Agent", long)
	h := HeadOf(r)
	if got, want := [4]int{len(h.Method), len(h.Path), len(h.Query), len(h.Agent)}, [4]int{64, 2 << 10, 2 << 10, 256}; got != want {
		t.Errorf("bytes of method, path, query and User-Agent = %v, want %v", got, want)
	}
}
