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

// serveGET serves a GET without a socket.
func serveGET(h http.Handler, path, rawQuery string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: rawQuery}, Header: http.Header{}, Body: http.NoBody})
	return w
}

// FuzzRequests checks that the node gets only valid requests, and that the request it gets leads to the same request.
func FuzzRequests(f *testing.F) {
	f.Add(val5, "pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ&pagination.limit=5")
	f.Add(val5Bech32, "pagination.key=++++////++++////++++////++8&pagination.count_total=T")
	f.Add("0X5C8A1d51b8D99F2D7bafD80D19a74003B4E397B0", "pagination.offset=5&pagination.limit=005&pagination.reverse=1")
	f.Add("nope", "%zz&=;&pagination.limit=%zz")
	h, chain := newChainProxy(f, proxy.Options{})
	f.Fuzz(func(t *testing.T, address, rawQuery string) {
		if strings.Contains(address, "/") || address == "." || address == ".." {
			t.Skip("another path")
		}
		before := chain.calls()
		chain.grow(1000)
		path := "/staking/validators/" + address + "/delegations"
		switch status := serveGET(h, path, rawQuery).Code; status {
		case 200, 404:
		case 400:
			if chain.calls() > before {
				t.Fatal("request was refused after a node request, want before")
			}
			return
		default:
			t.Fatalf("status = %d, want 200, 400 or 404", status)
		}
		first := chain.lastRequest()
		query, err := url.ParseQuery(first.Query)
		if err != nil {
			t.Fatalf("query of the node request = %q: %v", first.Query, err)
		}
		for name, values := range query {
			if !strings.HasPrefix(name, "pagination.") || len(values) != 1 || values[0] == "" {
				t.Errorf("query of the node request = %q, want each pagination parameter once", first.Query)
			}
		}
		chain.grow(1000)
		serveGET(h, first.Path, first.Query)
		second := chain.lastRequest()
		first.Miss, second.Miss = false, false // depends on the cache
		if second != first {
			t.Errorf("node request for the canonical request = %+v, want %+v", second, first)
		}
	})
}

// FuzzReshape checks that any JSON of the node leads to JSON or a refusal.
func FuzzReshape(f *testing.F) {
	paths := []string{
		"/staking/validators", "/staking/validators/" + val5, "/staking/delegations/" + del0,
		"/staking/validators/" + val5 + "/delegators/" + del0 + "/period_delegations",
		"/distribution/delegators/" + del0 + "/rewards", "/staking/params", "/bank/params",
	}
	for _, name := range []string{"page_validators_limit_2", "ok_validator_v8_locked_escape", "page_d0_delegations_limit_1", "page_d1_v5_period_limit_2", "ok_distribution_rewards_d2", "addr_rewards_zero", "ok_staking_params"} {
		for i := range paths {
			f.Add(byte(i), findRecording(f, name).Raw)
		}
	}
	f.Add(byte(2), `{"code":200,"msg":{"delegation_responses":[],"pagination":{"next_key":"a\\\r"}},"error":""}`)
	h, chain := newChainProxy(f, proxy.Options{})
	f.Fuzz(func(t *testing.T, path byte, raw string) {
		if !json.Valid([]byte(raw)) {
			t.Skip("package node rejects it")
		}
		chain.reply(200, raw)
		chain.grow(100_000) // so that no earlier entry is served
		got := serveGET(h, paths[int(path)%len(paths)], "")
		if got.Code != 200 && got.Code != 502 {
			t.Fatalf("response to %q = %d %s, want 200 or 502", raw, got.Code, got.Body)
		}
		if !json.Valid(got.Body.Bytes()) {
			t.Errorf("body for %q = %q, want JSON", raw, got.Body)
		}
	})
}
