package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestKindsHaveTheirNamesAndStatuses(t *testing.T) {
	for kind, want := range map[upstream.Kind]struct {
		name   string
		status int
	}{upstream.Unreachable: {"unreachable", 502}, upstream.Timeout: {"timeout", 504}, upstream.Overloaded: {"overloaded", 503}, upstream.BadAnswer: {"bad_answer", 502}} {
		if kind.String() != want.name || kind.Status() != want.status {
			t.Errorf("kind = %s %d, want %s %d", kind, kind.Status(), want.name, want.status)
		}
	}
}

func TestSilenceIsATimeoutOrNoConnection(t *testing.T) {
	for cause, want := range map[error]struct {
		kind upstream.Kind
		text string
	}{
		context.DeadlineExceeded: {upstream.Timeout, "the node did not answer in time: context deadline exceeded"},
		os.ErrDeadlineExceeded:   {upstream.Timeout, "the node did not answer in time: i/o timeout"},
		context.Canceled:         {upstream.Unreachable, "the node cannot be reached: context canceled"},
	} {
		err := fmt.Errorf("read: %w", upstream.Silence("the node", cause))
		if upstream.KindOf(err) != want.kind || err.Error() != "read: "+want.text || !errors.Is(err, cause) {
			t.Errorf("error = %v of kind %s, want %s of kind %s", err, upstream.KindOf(err), want.text, want.kind)
		}
		if inner := upstream.Bare(&url.Error{Op: "Get", URL: "http://key@host", Err: cause}); !errors.Is(inner, cause) || inner.Error() != cause.Error() || upstream.Bare(err).Error() != err.Error() {
			t.Errorf("Bare = %v, want %v", inner, cause)
		}
	}
	if got := (&upstream.Error{Msg: "silent"}).Error(); got != "silent" || upstream.KindOf(errors.New("other")) != 0 {
		t.Errorf("Error = %q, want silent", got)
	}
}

func TestErrorOfAnAPIIsPassedToItsClientsAlone(t *testing.T) {
	said := &upstream.Said{API: upstream.RPC, Code: -32005}
	for err, want := range map[error]*upstream.Said{&upstream.Error{Said: said}: said, &upstream.Error{}: nil, errors.New("other"): nil} {
		if got := upstream.SaidBy(err, upstream.RPC); got != want || upstream.SaidBy(err, upstream.GRPC) != nil {
			t.Errorf("SaidBy = %v, want %v for the RPC alone", got, want)
		}
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
		for sent, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999999999999999": (1<<33 - 1) * time.Second, date(time.Minute): time.Minute, date(-time.Minute): 0,
		} {
			expect.Equal(t, upstream.RetryAfter(http.Header{"Retry-After": {sent}}), want, "RetryAfter of %q", sent)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := upstream.Sleep(ctx, time.Millisecond); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("Sleep = %v after %s, want 1ms", err, time.Since(began))
		}
		if err := upstream.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Sleep = %v after %s, want the end of the context after 1s", err, time.Since(began))
		}
	})
}

func TestTransportAddsHeadersAndHidesThemInRefusals(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/"+r.Header.Get("X-Key"))
		w.Header().Set("X-Cosmos-Block-Height", "1101")
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusFound)
		}
		fmt.Fprint(w, r.Header.Get("X-Key"), strings.Repeat(".", 1<<20))
	}))
	defer server.Close()
	headers := http.Header{"X-Key": {"secret-key"}, "X-Tier": {"1"}} // a short value is no credential
	client := upstream.NewClient(&http.Transport{}, headers, upstream.NewRedactor(nil, upstream.HeaderValues(headers)...))
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{"/ok": "secret-key.", "/refused": "***........"} {
		response := expect.Value(client.Get(server.URL + path))(t)
		begin := make([]byte, len(want))
		if n, _ := response.Body.Read(begin); string(begin[:n]) != want || response.Header.Get("Location") != "/***" {
			t.Errorf("%s: body = %s, Location = %s, want %s, /***", path, begin[:n], response.Header.Get("Location"), want)
		}
		expect.Equal(t, response.Header.Get("X-Cosmos-Block-Height"), "1101", "height")
		response.Body.Close()
	}
}

func TestErrorsAreRedactedAndKeepTheirCause(t *testing.T) {
	hide := strings.NewReplacer("secret", "***")
	cause, harmless := fmt.Errorf("secret: %w", context.Canceled), errors.New("harmless")
	if err := upstream.RedactError(cause, hide); err.Error() != "***: context canceled" || !errors.Is(err, context.Canceled) {
		t.Errorf("RedactError = %v", err)
	}
	for _, err := range []error{harmless, nil} {
		expect.ErrorIs(t, upstream.RedactError(err, hide), err, "RedactError(%v)", err)
	}
	if got := upstream.RedactError(cause, nil); got.Error() != cause.Error() {
		t.Errorf("RedactError without secrets = %v", got)
	}
}

func TestBreakerCountsAnswersAsSuccesses(t *testing.T) {
	answer := errors.New("not found")
	breaker := upstream.NewBreaker[int](upstream.BreakerOptions{
		Outage: upstream.NewOutage(nil, ""), Failures: 1, Cooldown: time.Hour,
		Excluded: func(error) bool { return false }, Answered: func(err error) bool { return errors.Is(err, answer) },
	})
	for range 2 {
		if _, err := breaker.Execute(func() (int, error) { return 0, answer }); !errors.Is(err, answer) {
			t.Errorf("error = %v, want %v", err, answer)
		}
	}
}
