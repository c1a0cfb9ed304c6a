package proxy_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
)

func inProcess(h http.Handler, path, rawQuery string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: rawQuery}, Header: http.Header{}, Body: http.NoBody})
	return w
}

// FuzzRequests: whatever is asked, the node is asked only what it
// understands, and asking that is asking the same.
func FuzzRequests(f *testing.F) {
	f.Add(val5, "pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ&pagination.limit=5")
	f.Add(val5Bech32, "pagination.key=++++////++++////++++////++8&pagination.count_total=T")
	f.Add("0X5C8A1d51b8D99F2D7bafD80D19a74003B4E397B0", "pagination.offset=5&pagination.limit=005&pagination.reverse=1")
	f.Add("nope", "%zz&=;&pagination.limit=%zz")
	h, chain := newChainProxy(f, proxy.Options{})
	f.Fuzz(func(t *testing.T, address, rawQuery string) {
		if strings.Contains(address, "/") || address == "." || address == ".." {
			t.Skip() // another path
		}
		before := chain.calls()
		chain.grow(1000)
		path := "/staking/validators/" + address + "/delegations"
		switch status := inProcess(h, path, rawQuery).Code; status {
		case 200, 404:
		case 400:
			if chain.calls() > before {
				t.Fatal("refused only after a request to the node")
			}
			return
		default:
			t.Fatalf("status %d", status)
		}
		first := chain.last()
		query, err := url.ParseQuery(first.Query)
		if err != nil {
			t.Fatalf("the node is asked %q: %v", first.Query, err)
		}
		for name, values := range query {
			if !strings.HasPrefix(name, "pagination.") || len(values) != 1 || values[0] == "" {
				t.Errorf("the node is asked %q", first.Query)
			}
		}
		chain.grow(1000)
		inProcess(h, first.Path, first.Query)
		again := chain.last()
		first.Miss, again.Miss = false, false // which is of what is at hand, and not of what is asked
		if again != first {
			t.Errorf("asked again: %+v, at first %+v", again, first)
		}
	})
}

// FuzzReshape: whatever JSON the node sends, JSON or a refusal of ours leaves.
func FuzzReshape(f *testing.F) {
	paths := []string{
		"/staking/validators", "/staking/validators/" + val5, "/staking/delegations/" + del0,
		"/staking/validators/" + val5 + "/delegators/" + del0 + "/period_delegations",
		"/distribution/delegators/" + del0 + "/rewards", "/staking/params", "/bank/params",
	}
	for _, name := range []string{"page_validators_limit_2", "ok_validator_v8_locked_escape", "page_d0_delegations_limit_1", "page_d1_v5_period_limit_2", "ok_distribution_rewards_d2", "addr_rewards_zero", "ok_staking_params"} {
		for i := range paths {
			f.Add(byte(i), recorded(f, name).Raw)
		}
	}
	h, chain := newChainProxy(f, proxy.Options{})
	f.Fuzz(func(t *testing.T, path byte, raw string) {
		if !json.Valid([]byte(raw)) {
			t.Skip("package node passes on no such text")
		}
		chain.says(200, raw)
		chain.grow(100_000) // past all use of the answer before
		got := inProcess(h, paths[int(path)%len(paths)], "")
		if got.Code != 200 && got.Code != 502 {
			t.Fatalf("status %d: %s", got.Code, got.Body)
		}
		if !json.Valid(got.Body.Bytes()) {
			t.Errorf("of %q came %q", raw, got.Body)
		}
	})
}
