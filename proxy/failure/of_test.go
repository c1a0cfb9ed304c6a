package failure

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestErrorsOfCacheAreNotInternalErrors(t *testing.T) {
	for err, want := range map[error]int{cache.ErrOverloaded: http.StatusServiceUnavailable, account.ErrShare: http.StatusTooManyRequests, upstream.ErrBehind: http.StatusBadGateway} {
		if f := Of(fmt.Errorf("a read: %w", err)); f.Status != want || f.Public == "internal error" {
			t.Errorf("Of(%v) = %d %q, want %d with a text of its own", err, f.Status, f.Public, want)
		}
	}
}

func TestErrorOfFailureIsCauseOrPublicText(t *testing.T) {
	cause := errors.New("read block 7: node returned 503")
	for want, f := range map[string]*Failure{"not found": {Public: "not found"}, cause.Error(): {Public: "bad gateway", Err: cause}} {
		expect.Equal(t, f.Error(), want, "Error")
	}
}

func TestOverloadByUnknownPathsIsAClientError(t *testing.T) {
	for err, want := range map[error]int{cache.ErrOverloaded: http.StatusTooManyRequests, upstream.ErrBehind: http.StatusBadGateway} {
		if f := OfUnknown(err); f.Status != want || !f.Expected || (f.Public == Of(err).Public) != (f.Status == Of(err).Status) {
			t.Errorf("OfUnknown(%v) = %d %q, expected %t; want %d, expected", err, f.Status, f.Public, f.Expected, want)
		}
	}
}

func TestAdviceIsAuthenticationOrRetryInWholeSeconds(t *testing.T) {
	for _, tt := range []struct {
		Failure
		auth, after string
	}{
		{Failure{Status: 401}, `ApiKey header="X-Api-Key"`, ""},
		{Failure{Status: 403}, "", ""},
		{Failure{Status: 429}, "", "1"},
		{Failure{Status: 503, RetryAfter: time.Millisecond}, "", "1"},
		{Failure{Status: 502, RetryAfter: 1001 * time.Millisecond}, "", "2"},
		{Failure{Status: 502}, "", ""},
	} {
		h := http.Header{}
		if tt.SetAdvice(h); h.Get("WWW-Authenticate") != tt.auth || h.Get("Retry-After") != tt.after {
			t.Errorf("advice of %d after %s = %v, want %q, %q", tt.Status, tt.RetryAfter, h, tt.auth, tt.after)
		}
	}
}

func TestBodyErrorsAreClassified(t *testing.T) {
	refusal := &Failure{Status: http.StatusServiceUnavailable}
	for err, want := range map[error]int{
		fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 7}): http.StatusRequestEntityTooLarge,
		fmt.Errorf("read: %w", refusal):                       http.StatusServiceUnavailable,
		io.ErrUnexpectedEOF:                                   http.StatusBadRequest,
	} {
		if f := Of(OfBody(err)); f.Status != want || (f.Public == "the body is larger than 7 bytes") != f.Expected {
			t.Errorf("OfBody(%v) = %d %q, expected %t; want %d", err, f.Status, f.Public, f.Expected, want)
		}
	}
}
