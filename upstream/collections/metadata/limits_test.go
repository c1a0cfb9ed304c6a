package metadata_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

func limited(retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// pauses looks up a contract every 100 ms, and returns the first n times between requests to the provider, truncated to 100 ms.
func pauses(t *testing.T, s *metadata.Service, provider *alchemy, n int) []time.Duration {
	t.Helper()
	for len(provider.batches()) <= n {
		if _, degraded := lookup(t, s, one); !degraded {
			t.Fatal("page is not degraded, want it degraded")
		}
		time.Sleep(100 * time.Millisecond)
	}
	var between []time.Duration
	for i := range n {
		between = append(between, provider.times[i+1].Sub(provider.times[i]).Truncate(100*time.Millisecond))
	}
	return between
}

func TestProviderGetsNoRequestsAfter429(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		retryAfter string
		want       []time.Duration
	}{
		"longer each time without Retry-After":     {"", []time.Duration{1000 * ms, 1500 * ms, 2300 * ms, 3400 * ms, 5000 * ms, 5000 * ms}},
		"as long as Retry-After":                   {"7", []time.Duration{7000 * ms, 7000 * ms}},
		"until the date in Retry-After":            {"Sat, 01 Jan 2000 00:00:20 GMT", []time.Duration{20000 * ms}},
		"at most five minutes":                     {"86400", []time.Duration{300000 * ms}},
		"as without Retry-After if it is invalid":  {"soon", []time.Duration{1000 * ms, 1500 * ms}},
		"as without Retry-After if it is negative": {"-3", []time.Duration{1000 * ms, 1500 * ms}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := &alchemy{fault: limited(test.retryAfter)}
				s := openAlchemy(t, provider, metadata.Options{})
				expect.NoDiff(t, pauses(t, s, provider, len(test.want)), test.want, "pauses")
				expect.Equal(t, state(s), "rate_limited", "provider state")
			})
		})
	}
}

func TestProviderThatLimitsTheRateIsReachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: limited("")}
		s := openAlchemy(t, provider, metadata.Options{})
		pauses(t, s, provider, 5)
		causes := s.Outages().Causes()
		if len(causes) != 1 || !strings.HasPrefix(slices.Collect(maps.Keys(causes))[0], "requests to metadata provider") {
			t.Errorf("outages = %v, want only one of the requests", causes)
		}
	})
}

func TestSuccessResetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: limited("")}
		s := openAlchemy(t, provider, metadata.Options{})
		pauses(t, s, provider, 3)
		time.Sleep(10 * time.Second)
		provider.fail(nil)
		wantDescribed(t, s, []string{two}, 1, false)
		synctest.Wait() // the page does not wait until the success is recorded
		provider.fail(limited(""))
		lookup(t, s, one)
		time.Sleep(1001 * time.Millisecond)
		provider.fail(nil)
		wantDescribed(t, s, []string{one}, 1, false)
	})
}

func TestBreakerOpensAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, log, registry := &alchemy{}, &logBuffer{}, prometheus.NewRegistry()
		s := openAlchemy(t, provider, metadata.Options{Logger: log.logger(), Registerer: registry})
		lookup(t, s, one)
		time.Sleep(100 * day)
		provider.fail(status(http.StatusBadGateway))

		check := func(requests int, breaker string, gauge float64) {
			t.Helper()
			synctest.Wait()
			expect.Equal(t, len(provider.batches()), requests, "requests")
			expect.Equal(t, state(s), breaker, "breaker state")
			expect.Equal(t, expect.Metric(t, registry, "tipcache_metadata_breaker_state", "alchemy"), gauge, "metric of the breaker state")
		}
		both := []string{one, two}
		outage := map[string]string{one: "1", two: ""}
		for range 8 {
			wantNames(t, s, both, outage, true)
		}
		check(6, "open", 2)
		time.Sleep(31 * time.Second)
		check(6, "half-open", 1)
		wantNames(t, s, both, outage, true) // its request is the probe
		check(7, "open", 2)
		time.Sleep(31 * time.Second)
		provider.fail(nil)
		wantNames(t, s, both, map[string]string{one: "8", two: "8"}, false)
		check(8, "closed", 0)
		for _, line := range []string{`msg="upstream unreachable" origin="metadata provider alchemy" error="alchemy gave no usable answer: status 502"`, `msg="upstream reachable again"`} {
			expect.Equal(t, log.Count(line), 1, "log lines with %q (%s)", line, log)
		}
	})
}

func TestEmptyContractsUseLittleMemory(t *testing.T) {
	const most = 4 << 20
	body := `[` + strings.Repeat(`{},`, most/3) + `{"address":"` + one + `","name":"N"}]`
	s := openAlchemy(t, &alchemy{fault: text(body)}, unhurried(metadata.Options{}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wantName(t, s, one, "N", false)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16*most {
		t.Errorf("allocated bytes = %d for %d bytes of contracts, want at most %d", allocated, len(body), 16*most)
	}
}

func TestAnswersOfUpToEightMiBAreRead(t *testing.T) {
	for size, readable := range map[int]bool{8 << 20: true, 8<<20 + 1: false} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			contract := `{"contracts":[{"address":"` + one + `","name":"N"}],"x":"`
			server := httptest.NewServer(&alchemy{fault: text(contract + strings.Repeat("x", size-len(contract)-2) + `"}`)})
			defer server.Close()
			s := open(t, "alchemy:"+server.URL+"/nft/v3/"+key+"/", unhurried(metadata.Options{}))
			found, degraded := s.Lookup(t.Context(), []string{one})
			if got := strings.Contains(string(found[one]), `"N"`); got != readable || degraded == readable {
				t.Errorf("Lookup = %s, degraded %t; want a name: %t", found[one], degraded, readable)
			}
		})
	}
}

func TestLackOfMemoryIsBlamedOnNeitherContractNorProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := account.New(1<<20, nil).Upstream() // 768 KiB
		others := budget.Open("others", true)
		expect.NoError(t, others.Take(767<<10))
		long := strings.Repeat("x", 2<<10)
		sized := func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			text := `[{"address":"` + control + `","name":"control"}]`
			if !bytes.Contains(body, []byte(control)) {
				text = `[{"address":"` + one + `","name":"` + long + `"}]`
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = io.WriteString(w, text)
		}
		s := openAlchemy(t, http.HandlerFunc(sized), metadata.Options{Memory: budget, Failures: 1})
		wantName(t, s, one, "", true)
		expect.Equal(t, state(s), "closed", "provider state")
		others.Close()
		wantName(t, s, one, long, false)
	})
}
