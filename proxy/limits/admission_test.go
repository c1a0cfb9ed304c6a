package limits_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newAdmission returns an admission whose limits are not shared with other processes.
func newAdmission(l limits.Limits, keys ...limits.Key) *limits.Admission {
	a := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	a.Limits.Store(&l)
	a.SetKeys(keys)
	return a
}

func keyOf(name, secret string) limits.Key {
	return limits.Key{Name: name, SHA256: sha256.Sum256([]byte(secret))}
}

func requestWithKey(secret string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if secret != "" {
		r.Header.Set(limits.KeyHeader, secret)
	}
	return r
}

// verdict returns the status, the wait and the text of a refusal, or "admitted".
func verdict(err error) string {
	if err == nil {
		return "admitted"
	}
	f := new(failure.Failure)
	if !errors.As(err, &f) {
		return "unexpected error: " + err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("%d after %v: %s", f.Status, f.RetryAfter.Round(time.Millisecond), f.Public))
}

var (
	client  = netip.MustParseAddr("192.0.2.1")
	other   = netip.MustParseAddr("192.0.2.2")
	perHour = limits.Rate{Requests: 2, Per: time.Hour, Burst: 2}
)

func TestAddressOverItsRateIsRefusedUntilRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(limits.Limits{Address: limits.Rate{Requests: 4, Per: time.Minute, Burst: 2}})
		const refused = "429 after 15s: too many requests: the limit of this address is 4 in 1m0s, at most 2 at once"
		for i, step := range []struct {
			after  time.Duration
			from   netip.Addr
			want   string
			status string // the RateLimit header
		}{
			{0, client, "admitted", `"address";r=1;t=15`},
			{0, client, "admitted", `"address";r=0;t=30`},
			{0, client, refused, `"address";r=0;t=30`},
			{0, other, "admitted", `"address";r=1;t=15`},
			{15*time.Second - time.Millisecond, client, "429 after 1ms: too many requests: the limit of this address is 4 in 1m0s, at most 2 at once", `"address";r=0;t=16`},
			{time.Millisecond, client, "admitted", `"address";r=0;t=30`},
			{0, client, refused, `"address";r=0;t=30`},
			{30 * time.Second, client, "admitted", `"address";r=1;t=15`},
		} {
			time.Sleep(step.after)
			answer := http.Header{}
			expect.Equal(t, verdict(a.Admit(t.Context(), &limits.Client{Address: step.from}, answer)), step.want, "step %d", i)
			want := http.Header{limits.StatusHeader: {step.status}, limits.PolicyHeader: {`"address";q=2;w=30`}}
			expect.NoDiff(t, answer, want, "step %d: headers", i)
		}
	})
}

func TestIPv6AddressesOfOneNetworkShareLimit(t *testing.T) {
	a := newAdmission(limits.Limits{Address: perHour})
	var got []string
	for _, address := range []string{"2001:db8::1", "2001:db8::2:0:0:1", "2001:db8::3", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"} {
		got = append(got, fmt.Sprint(address, " ", a.Admit(t.Context(), &limits.Client{Address: netip.MustParseAddr(address)}, http.Header{}) == nil))
	}
	want := []string{"2001:db8::1 true", "2001:db8::2:0:0:1 true", "2001:db8::3 false", "2001:db8:0:1::1 true", "192.0.2.1 true", "192.0.2.2 true"}
	expect.NoDiff(t, got, want, "admitted")
}

func TestOnlyConfiguredKeysAreAdmitted(t *testing.T) {
	const missing, invalid = "401 after 0s: the X-Api-Key header is required", "401 after 0s: the X-Api-Key is not valid"
	for name, tt := range map[string]struct {
		keys      []limits.Key
		presented string
		want      string
		admitted  string // name of the key
	}{
		"a configured key":               {[]limits.Key{keyOf("one", "secret"), keyOf("two", "hidden")}, "secret", "admitted", "one"},
		"another configured key":         {[]limits.Key{keyOf("one", "secret"), keyOf("two", "hidden")}, "hidden", "admitted", "two"},
		"an unknown key":                 {[]limits.Key{keyOf("one", "secret")}, "guess", invalid, ""},
		"the beginning of a key":         {[]limits.Key{keyOf("one", "secret")}, "secre", invalid, ""},
		"a key in another case":          {[]limits.Key{keyOf("one", "secret")}, "SECRET", invalid, ""},
		"a long key":                     {[]limits.Key{keyOf("one", strings.Repeat("x", 100))}, strings.Repeat("x", 100), "admitted", "one"},
		"no key":                         {[]limits.Key{keyOf("one", "secret")}, "", missing, ""},
		"no key, with an empty digest":   {[]limits.Key{keyOf("one", "")}, "", missing, ""},
		"a key where none is configured": {nil, "secret", "401 after 0s: this route is closed because no API key is configured: the operator adds a key to collections.keys (tipcache key new NAME makes one) or sets collections.auth to none", ""},
		"the last one of equal keys":     {[]limits.Key{keyOf("old", "secret"), keyOf("new", "secret")}, "secret", "admitted", "new"},
		"a key before another one":       {[]limits.Key{keyOf("one", "secret"), keyOf("two", "other")}, "secret", "admitted", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			a, answer := newAdmission(limits.Limits{}, tt.keys...), http.Header{}
			key, err := a.AdmitKey(requestWithKey(tt.presented), answer)
			if got := verdict(err); !strings.HasPrefix(got, tt.want[:min(len(tt.want), 60)]) || key.Name != tt.admitted {
				t.Errorf("AdmitKey = %q as %q, want %q as %q", got, key.Name, tt.want, tt.admitted)
			}
			if len(answer) > 0 {
				t.Errorf("headers without a limit = %v, want none", answer)
			}
			if found, known := a.KeyOf(tt.presented); known != (tt.admitted != "") || known && found.Name != tt.admitted {
				t.Errorf("KeyOf = %q, %t; want %q, %t", found.Name, known, tt.admitted, tt.admitted != "")
			}
		})
	}
}

func TestReplacedKeysApplyToTheNextRequest(t *testing.T) {
	keys := []limits.Key{keyOf("one", "secret")}
	a := newAdmission(limits.Limits{}, keys...)
	keys[0] = keyOf("one", "changed by the caller")
	if _, err := a.AdmitKey(requestWithKey("secret"), http.Header{}); err != nil {
		t.Errorf("AdmitKey after the caller changed its slice = %v, want nil", err)
	}
	a.SetKeys([]limits.Key{keyOf("one", "newer")})
	if _, err := a.AdmitKey(requestWithKey("secret"), http.Header{}); err == nil {
		t.Error("AdmitKey of a revoked key = nil, want an error")
	}
	expect.Value(a.AdmitKey(requestWithKey("newer"), http.Header{}))(t)
}

func TestKeysOfOneNameShareRateUnlessTheyHaveTheirOwn(t *testing.T) {
	own := keyOf("own", "three")
	own.Rate = limits.Rate{Requests: 3, Per: time.Hour, Burst: 3}
	a := newAdmission(limits.Limits{Key: perHour}, keyOf("shared", "one"), keyOf("shared", "two"), own)
	admitted := map[string]int{}
	for range 5 {
		for _, secret := range []string{"one", "two", "three"} {
			answer := http.Header{}
			if _, err := a.AdmitKey(requestWithKey(secret), answer); err == nil {
				admitted[secret]++
			}
			if got := answer.Get(limits.StatusHeader); !strings.HasPrefix(got, `"key";r=`) {
				t.Errorf("%s = %q, want the status of the key's limit", limits.StatusHeader, got)
			}
		}
	}
	expect.NoDiff(t, admitted, map[string]int{"one": 1, "two": 1, "three": 3}, "admitted requests")
}

func TestBatchCountsAgainstEveryLimit(t *testing.T) {
	bucket := func(n int) limits.Rate { return limits.Rate{Requests: n, Per: time.Hour, Burst: n} }
	for name, tt := range map[string]struct {
		address, key limits.Rate
		n            int
		want         string
		status       []string // the RateLimit header
	}{
		"no limit":                   {n: 9, want: "admitted"},
		"within the address's limit": {address: bucket(10), n: 9, want: "admitted", status: []string{`"address";r=0;t=3600`}},
		"within both limits":         {address: bucket(10), key: bucket(20), n: 9, want: "admitted", status: []string{`"address";r=0;t=3600`, `"key";r=10;t=1800`}},
		"within the key's limit":     {key: bucket(20), n: 9, want: "admitted", status: []string{`"key";r=10;t=1800`}},
		"beyond the address's burst": {address: bucket(9), n: 9, want: "400 after 0s: this request counts as 10 requests, and the limit of this address never admits more than 9 at once", status: []string{`"address";r=8;t=400`}},
		"beyond the key's burst":     {address: bucket(20), key: bucket(9), n: 9, want: "400 after 0s: this request counts as 10 requests, and the limit of this key never admits more than 9 at once", status: []string{`"address";r=10;t=1800`, `"key";r=8;t=400`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAdmission(limits.Limits{Address: tt.address, Key: tt.key})
				c, answer := limits.Client{Address: client, Key: limits.Key{Name: "one"}}, http.Header{}
				expect.NoError(t, a.Admit(t.Context(), &c, answer))
				err := a.AdmitMore(t.Context(), &c, tt.n, http.StatusBadRequest, answer)
				expect.Equal(t, verdict(err), tt.want, "AdmitMore")
				expect.NoDiff(t, answer[limits.StatusHeader], tt.status, "%s", limits.StatusHeader)
			})
		})
	}
}

func TestWouldAdmitCountsNothing(t *testing.T) {
	a := newAdmission(limits.Limits{Address: perHour, Key: limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}})
	free, keyed := limits.Client{Address: client}, limits.Client{Address: client, Key: limits.Key{Name: "one"}}
	for range 5 {
		if !a.WouldAdmit(&keyed, limits.Charge{}, time.Now()) || a.Delay(&keyed, time.Now()) != 0 {
			t.Fatal("WouldAdmit = false or Delay > 0 for the first request, want true and 0")
		}
	}
	var statuses limits.Statuses
	if !a.AdmitRepeated(&statuses, &keyed, limits.Charge{}, time.Now()) || !statuses[0].Limited() || !statuses[1].Limited() {
		t.Errorf("AdmitRepeated = false, or without the status of a limit: %+v; want true with both", statuses)
	}
	expect.Equal(t, string(statuses[1].AppendText(nil)), `"key";r=0;t=3600`, "status of the key's limit")
	if a.WouldAdmit(&keyed, limits.Charge{}, time.Now()) || a.AdmitRepeated(&statuses, &keyed, limits.Charge{}, time.Now()) {
		t.Error("WouldAdmit or AdmitRepeated = true beyond the key's limit, want false")
	}
	if wait := a.Delay(&keyed, time.Now()); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("Delay of the key = %v, want 59m to 1h", wait)
	}
	if a.WouldAdmit(&free, limits.Charge{}, time.Now()) {
		t.Error("WouldAdmit of a third request of the address = true, want false")
	}
}

func TestRepeatedRequestCountsAsItsCharge(t *testing.T) {
	rule := &limits.Rule{Text: "cost 3 limit 2/h /staking/*", Rate: perHour, Cost: 3}
	a := newAdmission(limits.Limits{Address: limits.Rate{Requests: 8, Per: time.Hour, Burst: 8}})
	c, charge := limits.Client{Address: client}, limits.Charge{More: 2, Rule: rule}
	var got []string
	for range 2 {
		var s limits.Statuses
		admitted := a.WouldAdmit(&c, charge, time.Now()) && a.AdmitRepeated(&s, &c, charge, time.Now())
		got = append(got, fmt.Sprintf("%t %.13s %t %.10s", admitted, s[0].AppendText(nil), s[1].Limited(), s[2].AppendText(nil)))
	}
	expect.NoDiff(t, got, []string{`true "address";r=5 false "rule";r=1`, `true "address";r=2 false "rule";r=0`}, "repeated requests")
	if a.WouldAdmit(&c, limits.Charge{More: 2}, time.Now()) || a.WouldAdmit(&c, limits.Charge{Rule: rule}, time.Now()) {
		t.Error("WouldAdmit = true beyond the limit of the address or the rule, want false")
	}
}

func TestStreamsSpendLimitOfClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(limits.Limits{Address: limits.Rate{Requests: 1, Per: time.Minute, Burst: 2}})
		c := limits.Client{Address: client}
		var got []time.Duration
		for range 4 {
			got = append(got, a.Spend(t.Context(), &c))
		}
		time.Sleep(time.Minute)
		got = append(got, a.Spend(t.Context(), &c), a.Spend(t.Context(), &c))
		expect.NoDiff(t, got, []time.Duration{0, 0, time.Minute, time.Minute, 0, time.Minute}, "waits")
	})
}

func TestRenewFindsKeyWithRateThatIsNotRequired(t *testing.T) {
	key := keyOf("one", "secret")
	key.Rate = perHour
	if c, err := newAdmission(limits.Limits{}, key).Renew(requestWithKey("secret"), false); err != nil || c.Name() != "key one 1" {
		t.Errorf("Renew = client %q, %v; want the first turn of the key", c.Name(), err)
	}
}

func TestRenewFailsOnceKeyIsRemoved(t *testing.T) {
	a := newAdmission(limits.Limits{}, keyOf("one", "secret"))
	r := requestWithKey("secret")
	r.RemoteAddr = "192.0.2.1:50000"
	if c, err := a.Renew(r, true); err != nil || c.Key.Name != "one" || c.Address != client {
		t.Errorf("Renew with the key = %+v, %v; want the client with its key", c, err)
	}
	if c, err := a.Renew(r, false); err != nil || c.Key.Name != "" {
		t.Errorf("Renew of a client without a key = %+v, %v; want no key", c, err)
	}
	a.SetKeys(nil)
	if _, err := a.Renew(r, true); verdict(err)[:3] != "401" {
		t.Errorf("Renew with a revoked key = %v, want 401", err)
	}
}

func TestVerdictsAreCountedByLimitAndStore(t *testing.T) {
	metrics := prometheus.NewRegistry()
	a := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), metrics)
	a.Limits.Store(&limits.Limits{Address: perHour, Key: perHour})
	a.SetKeys([]limits.Key{keyOf("one", "secret")})
	for range 3 {
		_ = a.Admit(t.Context(), &limits.Client{Address: client}, http.Header{})
	}
	_, _ = a.AdmitKey(requestWithKey("secret"), http.Header{})
	want := map[string]float64{
		"address|memory|allowed": 2, "address|memory|refused": 1, "key|memory|allowed": 1, "rule|memory|allowed": 0,
	}
	expect.NoDiff(t, expect.Metrics(t, metrics, "tipcache_proxy_limits_total"), want, "verdicts")
}

// A flood of addresses must not evict the bucket of a client that has used up its limit.
func TestFloodOfAddressesDoesNotRefillActiveClient(t *testing.T) {
	a := newAdmission(limits.Limits{Address: perHour})
	admitted := 0
	for n := range 1 << 17 {
		if n%1000 == 0 && a.Admit(t.Context(), &limits.Client{Address: client}, http.Header{}) == nil {
			admitted++
		}
		flood := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
		_ = a.Admit(t.Context(), &limits.Client{Address: flood}, http.Header{})
	}
	expect.Equal(t, admitted, 2, "requests of the client admitted during the flood")
}
