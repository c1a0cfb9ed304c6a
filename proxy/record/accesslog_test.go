package record

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

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
	h := HeadOf(r, "")
	if got, want := [4]int{len(h.Method), len(h.Path), len(h.Query), len(h.Agent)}, [4]int{64, 2 << 10, 2 << 10, 256}; got != want {
		t.Errorf("bytes of method, path, query and User-Agent = %v, want %v", got, want)
	}
}
