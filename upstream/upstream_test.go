package upstream_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// lines are what was logged, without the time.
func lines(log *bytes.Buffer) []string {
	var all []string
	for line := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, rest)
	}
	return all
}

func TestBreakerLogsLossAndRecoveryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		breaker := upstream.NewBreaker[int](upstream.BreakerOptions{
			Outage:   upstream.NewOutage(slog.New(slog.NewTextHandler(&log, nil)), "the node"),
			Failures: 2, Cooldown: time.Second,
			Excluded: func(err error) bool { return err.Error() == "a caller left" },
		})
		for _, failure := range []string{"refused", "a caller left", "reset", "", "", "refused again", ""} {
			_, _ = breaker.Execute(func() (int, error) {
				if failure != "" {
					return 0, errors.New(failure)
				}
				return 1, nil
			})
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Second)
		_, _ = breaker.Execute(func() (int, error) { return 1, nil })
		want := []string{
			`level=WARN msg="upstream unreachable" origin="the node" error=reset`,
			`level=INFO msg="upstream reachable again" origin="the node" after=3.5s`,
		}
		expect.NoDiff(t, lines(&log), want, "log")
	})
}

func TestTruncatedRefusalIsRedactedAndAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no such key: QueryKey7")
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := upstream.NewClient(transport, nil, strings.NewReplacer("QueryKey7", "***"))
	response := expect.Value(client.Get(server.URL))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if string(body) != "no such key: ***" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", body, err)
	}
}

func TestCredentialsOfAnOriginAreHidden(t *testing.T) {
	u := expect.Value(url.Parse("https://admin1:pass%2Fword@host/v3/cosmos/PathKey99/rpc?apikey=QueryKey7"))(t)
	redactor := upstream.NewRedactor(u, "Header+Key")
	for _, said := range []string{
		"no such key: PathKey99", "pathkey99 is unknown", "PATHKEY99", "QueryKey7", "admin1", "pass/word", "pass%2Fword", "Basic YWRtaW4xOnBhc3Mvd29yZA==", "Header+Key", "Header%2BKey",
	} {
		expect.Contains(t, redactor.Replace(said), "***", "%q stays", said)
	}
	const harmless = "v3 does not know rpc of cosmos"
	if got := redactor.Replace(harmless); got != harmless {
		t.Errorf("%q became %q", harmless, got)
	}
}

func TestCredentialsAreHiddenAsAWhole(t *testing.T) {
	for said, address := range map[string]string{
		"dG9rZW43Nzo=":  "https://token77@host", // a user without a password
		"admin1:pass":   "https://admin1:pass@host",
		"QueryKey7and8": "https://host/?a=QueryKey7&b=QueryKey7and8",
	} {
		u := expect.Value(url.Parse(address))(t)
		expect.Equal(t, upstream.NewRedactor(u).Replace(said), "***", "%q of %s", said, address)
	}
}

// What follows a 101 is no body: nothing that bounds a read of one would end it.
func TestUnrequestedProtocolSwitchIsAnError(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	defer s.Close()
	client := upstream.NewClient(&http.Transport{}, nil, nil)
	defer client.CloseIdleConnections()
	for _, asked := range []string{"", "echo"} {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil))(t)
		if asked != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", asked)
		}
		response, err := client.Do(r)
		if ok := err == nil; ok != (asked != "") {
			t.Errorf("asked for %q: error %v", asked, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
}

func TestClientPassesTraceUnlessRequestNamesOne(t *testing.T) {
	const own, sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-00"
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Traceparent") }))
	defer s.Close()
	client := upstream.NewClient(&http.Transport{}, nil, nil)
	defer client.CloseIdleConnections()
	traced := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": own})
	for _, tt := range []struct {
		name       string
		traced     bool
		sent, want string
	}{{"no trace", false, "", ""}, {"a trace", true, "", own}, {"a request with another trace", true, sent, sent}} {
		ctx := t.Context()
		if tt.traced {
			ctx = traced
		}
		r := expect.Value(http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil))(t)
		if tt.sent != "" {
			r.Header.Set("Traceparent", tt.sent)
		}
		expect.NoError(t, expect.Value(client.Do(r))(t).Body.Close())
		expect.Equal(t, <-got, tt.want, "traceparent of %s", tt.name)
		expect.Equal(t, r.Header.Get("Traceparent"), tt.sent, "traceparent of the caller's request, of %s", tt.name)
	}
}
