package metadata_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

func hijack(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Write([]byte(raw))
			conn.Close()
		}
	}
}

func TestProviderFaultLeavesPageWithoutMetadata(t *testing.T) {
	tests := map[string]struct {
		fault   http.HandlerFunc
		outcome string
	}{
		"hangs up":                         {hijack(""), "unreachable"},
		"breaks off in the body":           {hijack("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"contracts\":["), "bad_answer"},
		"sends no HTTP":                    {hijack("/nft/v3/" + key + " is your key\r\n\r\n"), "unreachable"},
		"answers too late for the batch":   {slow(time.Minute, text(`[]`)), "timeout"},
		"answers 500":                      {status(500), "bad_answer"},
		"answers 401":                      {status(401), "bad_answer"},
		"answers 404":                      {status(404), "bad_answer"},
		"redirects":                        {http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, "bad_answer"},
		"answers 429":                      {status(429), "rate_limited"},
		"sends HTML":                       {text("<html>" + key + "</html>"), "bad_answer"},
		"sends nothing":                    {text(""), "bad_answer"},
		"sends null":                       {text("null"), "bad_answer"},
		"sends a number":                   {text("7"), "bad_answer"},
		"sends half the JSON":              {text(`{"contracts":[{"address":"` + one), "bad_answer"},
		"sends an object without contract": {text(`{"message":"` + key + `"}`), "bad_answer"},
		"sends contracts of another type":  {text(`{"contracts":"many"}`), "bad_answer"},
		"sends an array of numbers":        {text(`[1,2]`), "bad_answer"},
		"sends an error with status 200":   {text(`{"error":{"message":"` + key + `"},"contracts":[]}`), "bad_answer"},
		"sends more than 8 MiB":            {text(`{"contracts":[],"x":"` + strings.Repeat("x", 8<<20) + `"}`), "bad_answer"},
	}
	for name, test := range tests {
		t.Run("a provider that "+name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&alchemy{fault: test.fault})
			defer server.Close()
			log, registry := &logBuffer{}, prometheus.NewRegistry()
			o := unhurried(metadata.Options{Logger: log.logger(), Registerer: registry})
			if test.outcome == "timeout" {
				o.Budget, o.Timeout = 200*time.Millisecond, 400*time.Millisecond
			}
			s := open(t, "alchemy:"+server.URL+"/nft/v3/"+key+"/", o)
			found, degraded := s.Lookup(t.Context(), []string{one})
			if string(found[one]) != "{}" || !degraded {
				t.Errorf("Lookup = %s, degraded %v; want {}, true", found[one], degraded)
			}
			expect.Eventually(t, "the outcome "+test.outcome, func() bool {
				return expect.Metric(t, registry, "tipcache_metadata_requests_total", test.outcome) >= 1
			})
			expect.Equal(t, expect.Metric(t, registry, "tipcache_metadata_degraded_lookups_total", "alchemy"), 1, "degraded lookups counted")
			expect.EventuallyAtLeast(t, "the failure in the log", func() int { return log.Count("metadata lookup failed") }, 1)
			wantNoKey(t, log, registry)
		})
	}
}

func TestMissingProviderLeavesPageWithoutMetadata(t *testing.T) {
	log, registry := &logBuffer{}, prometheus.NewRegistry()
	for _, provider := range []string{"alchemy:", "blockscout:"} {
		s := open(t, provider+"http://127.0.0.1:1/"+key, unhurried(metadata.Options{Logger: log.logger(), Registerer: registry}))
		wantName(t, s, one, "", true)
	}
	expect.Equal(t, log.Count("connection refused"), 2, "log lines with the cause (%s)", log)
	wantNoKey(t, log, registry)
}

func TestKeyInDescriptionIsRedacted(t *testing.T) {
	descriptions := map[string]string{
		"verbatim":        key,
		"escaped":         `sEcReT\u002dk3y`,
		"where it is cut": strings.Repeat("x", 4<<10-5) + key,
	}
	for name, description := range descriptions {
		t.Run(name, func(t *testing.T) {
			store := &memory{}
			answer := `[{"address":"` + one + `","name":"a name","openSeaMetadata":{"description":"` + description + `"}}]`
			s := openAlchemy(t, &alchemy{fault: text(answer)}, unhurried(metadata.Options{Store: store}))
			found, degraded := s.Lookup(t.Context(), []string{one})
			if body := string(found[one]); strings.Contains(body, key[:5]) || !strings.Contains(body, "***") && name != "where it is cut" || degraded {
				t.Errorf("description with the key = %.200s, degraded %v; want *** for the key, false", body, degraded)
			}
		})
	}
}

func TestLastPathSegmentIsRedactedUnlessShort(t *testing.T) {
	for key, want := range map[string]string{"secret": "a word with ***", "short": "a word with short"} {
		provider := text(`[{"address":"` + one + `","name":"a name","openSeaMetadata":{"description":"a word with ` + key + `"}}]`)
		s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, unhurried(metadata.Options{Transport: inBubble(provider), Store: &memory{}}))
		found, _ := s.Lookup(t.Context(), []string{one})
		if body := string(found[one]); !strings.Contains(body, want) {
			t.Errorf("description with the key %s = %.200s, want %s", key, body, want)
		}
	}
}

func TestStateReportsRefusalOfProvider(t *testing.T) {
	for want, fault := range map[string]http.HandlerFunc{
		"closed": nil, "rate_limited": status(429), "unauthorized": status(401), "failing": status(500),
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := &alchemy{fault: fault}
				s := openAlchemy(t, provider, metadata.Options{})
				lookup(t, s, one)
				synctest.Wait()
				if got, err := s.State(); got != want || (err == nil) != (fault == nil) {
					t.Errorf("State = %s, %v; want %s", got, err, want)
				}
				time.Sleep(time.Minute)
				provider.fail(nil)
				lookup(t, s, two)
				synctest.Wait()
				if got, err := s.State(); got != "closed" || err != nil {
					t.Errorf("State after recovery = %s, %v; want closed, nil", got, err)
				}
			})
		})
	}
}

func TestErrorsOfOpenHaveNoKey(t *testing.T) {
	for _, spec := range []string{
		"", key, "alchemy:" + key, "alchemy:ftp://host/" + key, "alchemy:http:///" + key,
		"alchemy:http://host/%zz" + key, "opensea:https://host/" + key, "https://host/nft/v3/" + key,
	} {
		s, err := metadata.Open(metadata.Options{Settings: metadata.Settings{Provider: spec}, Store: &memory{}})
		if err == nil {
			s.Close()
			t.Errorf("Open(%q) = nil, want an error", spec)
		} else if strings.Contains(err.Error(), key) {
			t.Errorf("Open(%q) = %v, want an error without the key", spec, err)
		}
	}
}

func TestKeyInTransportErrorIsRedacted(t *testing.T) {
	transports := map[string]roundTrip{
		"in an error": func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("cannot send %s to %s", r.URL.Path, r.URL)
		},
		"in a panic": func(r *http.Request) (*http.Response, error) {
			panic("cannot send to " + r.URL.String())
		},
	}
	for name, transport := range transports {
		for _, provider := range []string{"alchemy", "blockscout"} {
			t.Run(name+" to "+provider, func(t *testing.T) {
				log, registry := &logBuffer{}, prometheus.NewRegistry()
				s := open(t, provider+":https://user:"+key+"pass@host/nft/v3/"+key+"?k="+key, unhurried(metadata.Options{
					Transport: transport, Logger: log.logger(), Registerer: registry,
				}))
				lookup(t, s, one)
				expect.Contains(t, log.String(), "cannot send", "log")
				wantNoKey(t, log, registry)
			})
		}
	}
}

// wantNoKey fails the test if the log or a metric has the key.
func wantNoKey(t *testing.T, log *logBuffer, registry *prometheus.Registry) {
	t.Helper()
	families := expect.Value(registry.Gather())(t)
	if text := log.String() + fmt.Sprint(families); strings.Contains(text, key) {
		t.Errorf("log and metrics contain the key: %s", text)
	}
}
