package blocks_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipcache/tipcache/proxy/blocks"
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
	r.RemoveParameters(blocks.FilterHeight)
	return r
}

func TestHeightsAreParsedStrictly(t *testing.T) {
	const token = "99.A1A1A1A1"
	for name, tt := range map[string]struct {
		target  string
		headers []string
		rules   blocks.HeightRules
		want    blocks.Heights
		refusal string
	}{
		"no height":                              {target: "/?a=1"},
		"empty headers":                          {target: "/", headers: []string{respond.HeightHeader, "", respond.MinHeightHeader, "", session.Header, ""}},
		"a height":                               {target: "/", headers: []string{respond.HeightHeader, "90"}, want: blocks.Heights{Pinned: 90}},
		"a height in the URL":                    {target: "/?X-Block-Height=90", want: blocks.Heights{Pinned: 90, InURL: true}},
		"a height in both":                       {target: "/?x-block-height=90", headers: []string{respond.HeightHeader, "90"}, want: blocks.Heights{Pinned: 90, InURL: true}},
		"an empty parameter":                     {target: "/?x-block-height=", want: blocks.Heights{}},
		"a minimum":                              {target: "/", headers: []string{respond.MinHeightHeader, token}, want: blocks.Heights{Min: 99}},
		"a minimum in the URL":                   {target: "/?x-min-block-height=99", want: blocks.Heights{Min: 99}},
		"a session":                              {target: "/", headers: []string{session.Header, token}, want: blocks.Heights{Session: session.Token{Height: 99, Hash: "A1A1A1A1"}}},
		"an execution block":                     {target: "/", headers: []string{respond.MinEVMHeader, "7"}, rules: blocks.HeightRules{EVM: true}, want: blocks.Heights{EVM: 7}},
		"an execution block where not supported": {target: "/", headers: []string{respond.MinEVMHeader, "x"}},
		"a minimum at the height":                {target: "/?x-min-block-height=90", headers: []string{respond.HeightHeader, "90"}, want: blocks.Heights{Pinned: 90, Min: 90}},
		"a minimum above the height":             {target: "/?x-min-block-height=91", headers: []string{respond.HeightHeader, "90"}, refusal: "X-Min-Block-Height is above X-Block-Height: no block satisfies both"},
		"a minimum above the height, allowed":    {target: "/?x-min-block-height=91", headers: []string{respond.HeightHeader, "90"}, rules: blocks.HeightRules{Loose: true}, want: blocks.Heights{Pinned: 90, Min: 91}},
		"an interface's own header":              {target: "/", headers: []string{respond.HeightHeader, "90"}, rules: blocks.HeightRules{Pinned: func(http.Header) (int64, error) { return 5, nil }}, want: blocks.Heights{Pinned: 5}},
		"an interface's own refusal":             {target: "/", rules: blocks.HeightRules{Pinned: func(http.Header) (int64, error) { return 0, failure.BadInput("not this one") }}, refusal: "not this one"},
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
		"an invalid execution block":             {target: "/", headers: []string{respond.MinEVMHeader, "x"}, rules: blocks.HeightRules{EVM: true}, refusal: `X-Min-Evm-Block is "x"; expected a positive integer`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.rules.Read(request(t, tt.target, tt.headers...))
			refusal := ""
			if err != nil {
				refusal = failure.Of(err).Public
			}
			expect.Equal(t, refusal, tt.refusal, "refusal")
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(blocks.Heights{})); err == nil && diff != "" {
				t.Errorf("heights (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeightParametersAreRestoredForRedirects(t *testing.T) {
	r := request(t, "/?a=1&X-Min-Block-Height=5&x-block-height=7&b=2")
	for want, got := range map[string]string{
		"a=1&b=2": r.URL.RawQuery, "a=1&b=2&x-block-height=7": blocks.RestorePinned(r), "a=1&b=2&x-block-height=7&x-min-block-height=5": blocks.RestoreHeights(r),
		"": blocks.RestoreHeights(request(t, "/")), "x-block-height=7": blocks.RestorePinned(request(t, "/?x-block-height=7")),
	} {
		expect.Equal(t, got, want, "query")
	}
}

func TestInvalidNodeHeightIsRefused(t *testing.T) {
	for value, want := range map[string]struct {
		height  int64
		refused bool
	}{"0": {0, false}, "7": {7, false}, "-1": {0, true}, "x": {0, true}, "": {0, true}, "9223372036854775807": {9223372036854775807, false}} {
		height, refusal := blocks.ReadNodeHeight(value)
		if height != want.height || (refusal != "") != want.refused {
			t.Errorf("%q: %d, refusal %q; want %d, refused %t", value, height, refusal, want.height, want.refused)
		}
	}
}

func TestRolledBackMinimumBlockIsAConflict(t *testing.T) {
	for name, tt := range map[string]struct {
		rolledBack string // hash
		want       string
	}{
		"no rollback":      {"", "miss"},
		"a rollback":       {"A1A1A1A1", "block 99 was rolled back, so a transaction in it may be lost: look for it, and repeat the request without this block"},
		"of another block": {"B2B2B2B2", "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.rolledBack = tt.rolledBack
				hs := expect.Value(blocks.HeightRules{}.Read(request(t, "/", respond.MinHeightHeader, "99.A1A1A1A1")))(t)
				expect.Equal(t, d.get(t, hs, blocks.Snapshot{}).Outcome, tt.want, "outcome")
				if hs.EVM = 1 << 40; tt.want != "miss" {
					expect.Equal(t, d.get(t, hs, blocks.Snapshot{}).Outcome, tt.want, "outcome with a minimum execution block")
				}
			})
		})
	}
}

func TestMinimumBlockIsRefusedWhileTipIsUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		hs   blocks.Heights
		want string
	}{
		"a block":            {blocks.Heights{Min: 101}, "the newest block is unknown at present: cannot wait for X-Min-Block-Height"},
		"an execution block": {blocks.Heights{EVM: 1101}, "the newest block is unknown at present: cannot wait for X-Min-Evm-Block"},
		"a session":          {blocks.Heights{Session: session.Token{Height: 101}}, "miss"},
		"no minimum":         {blocks.Heights{}, "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.tip.Known = false
				expect.Equal(t, d.get(t, tt.hs, blocks.Snapshot{}).Outcome, tt.want, "outcome")
			})
		})
	}
}

func TestPageOfAWalkWaitsAtMostTwoBlocks(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration // until the next block
		want  outcome
	}{
		"in time":    {time.Second, outcome{101, "miss"}},
		"too late":   {5 * time.Second, outcome{100, "miss"}},
		"at the end": {4*time.Second - 1, outcome{101, "miss"}},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				block := time.AfterFunc(tt.after, func() { d.nodes.grow(1) })
				defer block.Stop()
				expect.Equal(t, d.get(t, blocks.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1}), tt.want, "outcome")
			})
		})
	}
}

func TestPageOfAnImpossibleBlockDoesNotWait(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		d.nodes.tip.Limit = 110
		began := time.Now()
		expect.Equal(t, d.get(t, blocks.Heights{}, blocks.Snapshot{Height: 111, Epoch: 1}), outcome{100, "miss"}, "outcome")
		expect.Equal(t, time.Since(began), 0, "wait")
	})
}

func TestPagesOfOneRequestShareTheWait(t *testing.T) {
	withFrontend(t, func(t *testing.T, d *frontend) {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		r.WalkWait = new(time.Time)
		began := time.Now()
		for range 3 {
			q := d.query(blocks.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1})()
			if a, err := d.read(r, q); err != nil || a.Entry.Height != 100 {
				t.Fatalf("got %+v, %v; want block 100", a, err)
			}
		}
		expect.Equal(t, time.Since(began), 4*time.Second, "wait of three pages")
	})
}
