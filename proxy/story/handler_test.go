package story

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestNodeRequestsHaveTheFormOfTheShape(t *testing.T) {
	const (
		same    = "same"
		refused = ""

		list = somePath + "?pagination."
		raw  = "\x14abcdefghijklmnopqrst"
		info = "/slashing/signing_infos/0x0"
		long = "/bank/supply/by_denom?denom="
		cdr  = "/dkg/cdr_partials?requester_pub_key_hex="
	)
	zeros, tail := strings.Repeat("0", 38), strings.Repeat("c", 128)
	key := "key=" + url.QueryEscape(raw)
	walk := func(raw string) string {
		return "key=" + walkKey{blocks.Snapshot{Height: 7}, raw}.text(someChain, somePath)
	}
	shapes := [...]*Handler{newHandler(t, &epochNodes{}, Options{RefuseUnknown: true}), newHandler(t, &epochNodes{}, Options{RefuseUnknown: true, Shape: Node})}
	for _, tt := range []struct{ target, documented, asNode string }{
		{"/staking/validators/0XAa" + zeros, "/staking/validators/0xaa" + zeros, "/staking/validators/0xaa" + zeros},
		{"/staking/validators/0xaa" + zeros + "00", refused, same},
		{"/staking/validators/story1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqvxd2cl", refused, same},
		{somePath + "?status=Bonded", somePath + "?status=BOND_STATUS_BONDED", same},
		{somePath + "?status=4", refused, same},
		{somePath + "?status=1", somePath + "?status=BOND_STATUS_UNBONDED", same},
		{somePath + "?status=unbonding", somePath + "?status=BOND_STATUS_UNBONDING", same},
		{somePath + "?status=3", somePath + "?status=BOND_STATUS_BONDED", same},
		{"/staking/delegators/0xaa" + zeros + "/redelegations?src_validator_addr=0xAa" + zeros, "/staking/delegators/0xaa" + zeros + "/redelegations?src_validator_addr=0xaa" + zeros, same},

		{list + "limit=010", list + "limit=10", same},
		{list + "limit=0&pagination.count_total=1", somePath, same},
		{list + "limit=2&pagination.count_total=TRUE", list + "limit=2&pagination.count_total=true", same},
		{list + "limit=100000&pagination.reverse=no", refused, same},
		{list + "limit=100000&pagination.reverse=f", list + "limit=100000", same},
		{list + "limit=100001", refused, same},
		{list + "offset=18446744073709551515", same, same},
		{list + "offset=18446744073709551516", refused, same},
		{list + "offset=18446744073709551415&pagination.limit=200", same, same},
		{list + "offset=18446744073709551416&pagination.limit=200", refused, same},
		{list + key + "&pagination.limit=2&pagination.count_total=true", list + key + "&pagination.limit=2", same},
		{list + "key=FGFiY2RlZmdoaWprbG1ub3BxcnN0", list + key, same},
		{list + key + "&pagination.offset=1", refused, same},
		{list + walk(raw), list + key, same},
		{list + walk("short"), refused, same},

		{somePath + "?Status=1&x=%zz", somePath, somePath + "?status=1"},

		{"/dkg/registrations?round=007", "/dkg/registrations?round=7", same},
		{"/dkg/registrations?round=0", "/dkg/registrations", same},
		{"/dkg/registrations?round=4294967296", refused, same},
		{cdr + "0xAB" + tail, cdr + "ab" + tail, same},
		{cdr + "AB" + tail, cdr + "ab" + tail, same},
		{cdr + "AB", refused, same},
		{long + strings.Repeat("d", maxText), same, same},
		{long + strings.Repeat("d", maxText+1), refused, refused},
		{"/staking/historical_info/18446744073709551615", same, same},
		{"/staking/historical_info/x", refused, same},
		{info + "2" + zeros + zeros[:25] + "1", same, same},
		{info + "2" + zeros + zeros[:25] + "5", refused, same},
		{info + "4" + zeros + zeros[:25] + "1", refused, same},
		{info + "3" + strings.Repeat("f", 64), refused, same},
	} {
		for i, want := range [...]string{tt.documented, tt.asNode} {
			h, request := shapes[i], newRequest(t, tt.target)
			q, err := h.Table.Endpoint(request).Parse(request)
			var got string
			if err == nil {
				got = strings.TrimSuffix(q.Ask.Path+"?"+q.Ask.Query, "?")
			}
			if want == same {
				want = tt.target
			}
			expect.Equal(t, got, want, "request for %s in the %s shape (%v)", tt.target, h.o.Shape, err)
			if at := err == nil && q.Walk.Height == 7; at != (i == 0 && tt.target == list+walk(raw)) {
				t.Errorf("request for %s in the %s shape has the height of a walk = %t", tt.target, h.o.Shape, at)
			}
		}
	}
}

func TestDocumentedPathsAreRoutesUnlessAnOperatorsRowMeetsThem(t *testing.T) {
	of := func(rows ...dialect.Row) (patterns []string) {
		for _, rt := range newHandler(t, &epochNodes{}, Options{RefuseUnknown: true}, rows...).Routes() {
			patterns = append(patterns, rt.Pattern)
		}
		return patterns
	}
	all := of()
	for _, row := range Rows(nil) {
		if row.Pattern != "" && !slices.Contains(all, row.Pattern) {
			t.Errorf("routes without %s, want all documented paths", row.Pattern)
		}
	}
	with := of(dialect.Row{Name: "own", Pattern: "/staking/{list}", Class: blocks.Live})
	if !slices.Contains(with, "/staking/{list}") || slices.Contains(with, "/staking/pool") || !slices.Contains(with, "/bank/params") {
		t.Errorf("routes = %v, want the operator's row in place of /staking/pool, and /bank/params", with)
	}
}

func TestHeightRulesDependOnTheShape(t *testing.T) {
	for _, tt := range []struct {
		pinned, least, evm string
		documented, asNode bool // accepted
	}{
		{"7", "7", "9", true, true},
		{"7", "8", "", false, false},
		{"x", "", "", false, true},
		{"", "x", "", false, false},
		{"", "", "x", false, false},
	} {
		for shape, want := range map[Shape]bool{Documented: tt.documented, Node: tt.asNode} {
			h, r := newHandler(t, &epochNodes{}, Options{RefuseUnknown: true, Shape: shape}), newRequest(t, somePath)
			for name, value := range map[string]string{"X-Block-Height": tt.pinned, "X-Min-Block-Height": tt.least, "X-Min-Evm-Block": tt.evm} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if _, err := h.Table.Endpoint(r).Parse(r); (err == nil) != want {
				t.Errorf("Parse of %+v in the %s shape: error = %v, want success %t", tt, shape, err, want)
			}
		}
	}
}

func newRequest(t *testing.T, target string) *web.Request {
	return web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
}
