package failure

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/tipcache/tipcache/cache"
)

// Streams tell of them beside an old answer, too.
func TestWhatTheCacheFailsWithIsNoInternalError(t *testing.T) {
	for err, want := range map[error]int{cache.ErrOverloaded: http.StatusServiceUnavailable, cache.ErrBehind: http.StatusBadGateway} {
		if f := Of(fmt.Errorf("a read: %w", err)); f.Status != want || f.Public == "internal error" {
			t.Errorf("%v is told as %d, %s; want %d", err, f.Status, f.Public, want)
		}
	}
}

func TestErrorOfAFailureIsItsCauseOrItsPublicText(t *testing.T) {
	cause := errors.New("read block 7: node returned 503")
	for want, f := range map[string]*Failure{"not found": {Public: "not found"}, cause.Error(): {Public: "bad gateway", Err: cause}} {
		if got := f.Error(); got != want {
			t.Errorf("Error = %q, want %q", got, want)
		}
	}
}

func TestOverloadOfWhatIsUnknownIsTheClients(t *testing.T) {
	for err, want := range map[error]int{cache.ErrOverloaded: http.StatusTooManyRequests, cache.ErrBehind: http.StatusBadGateway} {
		if f := OfUnknown(err); f.Status != want || !f.Expected || (f.Public == Of(err).Public) != (f.Status == Of(err).Status) {
			t.Errorf("OfUnknown(%v) = %d %q, expected %t; want %d, expected", err, f.Status, f.Public, f.Expected, want)
		}
	}
}
