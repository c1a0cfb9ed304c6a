package cosmos

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
)

func TestHeightIsReadFromOneHeader(t *testing.T) {
	for _, tt := range []struct {
		h      http.Header
		want   int64
		status int // of the failure, 0 for none
	}{
		{http.Header{}, 0, 0},
		{http.Header{"X-Block-Height": {"7"}}, 7, 0},
		{http.Header{"X-Block-Height": {""}}, 0, 0},
		{http.Header{"X-Block-Height": {"x"}}, 0, 400},
		{http.Header{cosmosHeader: {"7"}}, 7, 0},
		{http.Header{metadataHeader: {"7"}}, 7, 0},
		{http.Header{metadataHeader: {"-7"}}, 0, 500},
		{http.Header{"X-Block-Height": {"7"}, cosmosHeader: {"7"}}, 0, 400},
		{http.Header{cosmosHeader: {"7"}, metadataHeader: {"7"}}, 0, 400},
		{http.Header{cosmosHeader: {"7", "7"}}, 0, 400},
	} {
		got, err := readPinned(tt.h)
		if got != tt.want || (err != nil) != (tt.status > 0) || err != nil && failure.Of(err).Status != tt.status {
			t.Errorf("height of %v = %d, %v, want %d, status %d", tt.h, got, err, tt.want, tt.status)
		}
	}
}

func TestFailuresHaveGRPCCodes(t *testing.T) {
	for status, want := range map[int]string{
		400: `{"code":3,"message":"a <b>","details":[]}`, 404: `{"code":5,"message":"a <b>","details":[]}`, 401: `{"code":16,"message":"a <b>","details":[]}`,
		418: `{"code":2,"message":"a <b>","details":[]}`, 429: `{"code":8,"message":"a <b>","details":[]}`, 503: `{"code":14,"message":"a <b>","details":[]}`,
	} {
		h := http.Header{}
		got, typ, body := RenderFailure(nil, h, &failure.Failure{Status: status, Public: "a <b>"})
		if got != status || typ != "application/json" || string(body) != want || (h.Get("Retry-After") != "") != (status == 429 || status == 503) {
			t.Errorf("failure %d = %d %s %s, want %s", status, got, typ, body, want)
		}
	}
}

func TestResponsesHaveHeaderLinesOfTheNode(t *testing.T) {
	h := handlerOf(t)
	for usesGRPC, want := range map[bool][2]int{false: {2, 0}, true: {3, 2}} {
		h.usesGRPC.Store(usesGRPC)
		if got := [2]int{len(h.headers(200)), len(h.headers(404))}; got != want {
			t.Errorf("headers with gRPC = %t: %v, %v, want %v", usesGRPC, h.headers(200), h.headers(404), want)
		}
	}
	live, _ := h.parse(staking+"/params", "")
	found, _ := h.parse(txs+"/txs/AB", "")
	for _, tt := range []struct {
		status  int
		key     string
		expires bool
		ep      *endpoint
		want    bool
	}{
		{200, "", true, &endpoint{live, h}, false}, {404, "", true, &endpoint{live, h}, false}, {501, "", false, &endpoint{live, h}, true}, {504, "", false, &endpoint{live, h}, true},
		{400, "", true, &endpoint{live, h}, true}, {400, "", false, &endpoint{live, h}, false},
		{400, "/x", true, &endpoint{found, h}, false}, {400, "/x?!y", true, &endpoint{found, h}, true},
	} {
		e := &cache.Entry{Content: &cache.Content{Status: tt.status}}
		if tt.expires {
			e.Expires = time.Now()
		}
		if got := tt.ep.responseHeaders(e, tt.key); got.NoHeight != tt.want || got.Vary != VaryHeights {
			t.Errorf("status %d of %s: NoHeight = %t, want %t", tt.status, tt.ep.Endpoint.Row.Name, got.NoHeight, tt.want)
		}
	}
}

func TestOnlyAnAddressSelectsKeys(t *testing.T) {
	const valid, evm = "cosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu", "0x5AEda56215b167893e80B4fE645BA6d5Bab767DE"
	for text, want := range map[string]string{
		"": "", "a": "", "cosmos1 x": "", "a/b": "", valid[:len(valid)-1] + "q": "", evm[:41]: "", valid: valid, strings.ToUpper(valid): valid, evm: evm,
	} {
		if got, err := (&Handler{}).SelectAddress(text); got.Contains != want || (err == nil) != (want != "") {
			t.Errorf("SelectAddress(%q) = %q, %v; want %q", text, got.Contains, err, want)
		}
	}
}
