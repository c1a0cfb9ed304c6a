package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// request returns a request with pairs of headers, after the height parameters were removed from its URL.
func request(t *testing.T, target string, pairs ...string) *web.Request {
	t.Helper()
	r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	r.RemoveParameters(web.FilterParameter)
	return r
}

func TestHeightsAreParsedStrictly(t *testing.T) {
	const token = "99.A1A1A1A1"
	for name, tt := range map[string]struct {
		target  string
		headers []string
		rules   web.HeightRules
		want    web.Heights
		refusal string
	}{
		"no height":                              {target: "/?a=1"},
		"empty headers":                          {target: "/", headers: []string{respond.HeightHeader, "", respond.MinHeightHeader, "", session.Header, ""}},
		"a height":                               {target: "/", headers: []string{respond.HeightHeader, "90"}, want: web.Heights{Pinned: 90}},
		"a height in the URL":                    {target: "/?X-Block-Height=90", want: web.Heights{Pinned: 90, InURL: true}},
		"a height in both":                       {target: "/?x-block-height=90", headers: []string{respond.HeightHeader, "90"}, want: web.Heights{Pinned: 90, InURL: true}},
		"an empty parameter":                     {target: "/?x-block-height=", want: web.Heights{}},
		"a minimum":                              {target: "/", headers: []string{respond.MinHeightHeader, token}, want: web.Heights{Min: 99}},
		"a minimum in the URL":                   {target: "/?x-min-block-height=99", want: web.Heights{Min: 99}},
		"a session":                              {target: "/", headers: []string{session.Header, token}, want: web.Heights{Session: session.Token{Height: 99, Hash: "A1A1A1A1"}}},
		"an execution block":                     {target: "/", headers: []string{respond.MinEVMHeader, "7"}, rules: web.HeightRules{EVM: true}, want: web.Heights{EVM: 7}},
		"an execution block where not supported": {target: "/", headers: []string{respond.MinEVMHeader, "x"}},
		"a minimum at the height":                {target: "/?x-min-block-height=90", headers: []string{respond.HeightHeader, "90"}, want: web.Heights{Pinned: 90, Min: 90}},
		"a minimum above the height":             {target: "/?x-min-block-height=91", headers: []string{respond.HeightHeader, "90"}, refusal: "X-Min-Block-Height is above X-Block-Height: no block satisfies both"},
		"an interface's own header":              {target: "/", headers: []string{respond.HeightHeader, "90"}, rules: web.HeightRules{Pinned: func(http.Header) (int64, error) { return 5, nil }}, want: web.Heights{Pinned: 5}},
		"an interface's own refusal":             {target: "/", rules: web.HeightRules{Pinned: func(http.Header) (int64, error) { return 0, failure.BadInput("not this one") }}, refusal: "not this one"},
		"height zero":                            {target: "/", headers: []string{respond.HeightHeader, "0"}, refusal: `X-Block-Height is "0"; expected a positive integer`},
		"a negative height":                      {target: "/", headers: []string{respond.HeightHeader, "-1"}, refusal: `X-Block-Height is "-1"; expected a positive integer`},
		"a height with a sign":                   {target: "/", headers: []string{respond.HeightHeader, "+1"}, refusal: `X-Block-Height is "+1"; expected a positive integer`},
		"a height beyond int64":                  {target: "/", headers: []string{respond.HeightHeader, "9223372036854775808"}, refusal: `X-Block-Height is "9223372036854775808"; expected a positive integer`},
		"two heights":                            {target: "/?x-block-height=91", headers: []string{respond.HeightHeader, "90"}, refusal: "X-Block-Height is 90 and x-block-height is 91: they must be equal"},
		"two heights in the URL":                 {target: "/?x-block-height=90&x-block-height=91", refusal: `x-block-height is "90" and "91"; expected one value`},
		"two minimums":                           {target: "/?x-min-block-height=98", headers: []string{respond.MinHeightHeader, "99"}, refusal: "X-Min-Block-Height is 99 and x-min-block-height is 98: they must be equal"},
		"an invalid minimum":                     {target: "/?x-min-block-height=x", refusal: `x-min-block-height is "x"; expected a positive integer, or the X-Session of an answer`},
		"two sessions":                           {target: "/", headers: []string{session.Header, "1", session.Header, "2"}, refusal: "X-Session is given 2 times: send only the greatest"},
		"an invalid session":                     {target: "/", headers: []string{session.Header, "x"}, refusal: `X-Session is "x"; expected a positive integer, or the X-Session of an answer`},
		"an invalid execution block":             {target: "/", headers: []string{respond.MinEVMHeader, "x"}, rules: web.HeightRules{EVM: true}, refusal: `X-Min-Evm-Block is "x"; expected a positive integer`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.rules.Read(request(t, tt.target, tt.headers...))
			refusal := ""
			if err != nil {
				refusal = failure.Of(err).Public
			}
			expect.Equal(t, refusal, tt.refusal, "refusal")
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(web.Heights{}, "Required")); err == nil && diff != "" {
				t.Errorf("heights (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParametersAreRestoredForRedirects(t *testing.T) {
	r := request(t, "/?a=1&X-Min-Block-Height=5&x-block-height=7&b=2")
	for want, got := range map[string]string{
		"a=1&b=2": r.URL.RawQuery, "a=1&b=2&x-block-height=7": web.RestorePinned(r), "a=1&b=2&x-block-height=7&x-min-block-height=5": web.RestoreOptions(r),
		"": web.RestoreOptions(request(t, "/")), "x-block-height=7": web.RestorePinned(request(t, "/?x-block-height=7")),
	} {
		expect.Equal(t, got, want, "query")
	}
}

func TestInvalidNodeHeightIsRefused(t *testing.T) {
	for value, want := range map[string]struct {
		height  int64
		refused bool
	}{"0": {0, false}, "7": {7, false}, "-1": {0, true}, "x": {0, true}, "": {0, true}, "9223372036854775807": {9223372036854775807, false}} {
		height, refusal := web.ReadNodeHeight(value)
		if height != want.height || (refusal != "") != want.refused {
			t.Errorf("%q: %d, refusal %q; want %d, refused %t", value, height, refusal, want.height, want.refused)
		}
	}
}
