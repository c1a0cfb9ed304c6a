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
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// request returns a request with pairs of headers, after the height parameters were removed from its URL.
func request(t *testing.T, target string, pairs ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return web.WithoutParameters(r, blocks.FilterHeight)
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
		"none":                                   {target: "/?a=1"},
		"empty headers":                          {target: "/", headers: []string{respond.HeightHeader, "", respond.MinHeightHeader, "", session.Header, ""}},
		"a height to read at":                    {target: "/", headers: []string{respond.HeightHeader, "90"}, want: blocks.Heights{Pinned: 90}},
		"the same in the URL":                    {target: "/?X-Block-Height=90", want: blocks.Heights{Pinned: 90, InURL: true}},
		"the same in both":                       {target: "/?x-block-height=90", headers: []string{respond.HeightHeader, "90"}, want: blocks.Heights{Pinned: 90, InURL: true}},
		"an empty parameter":                     {target: "/?x-block-height=", want: blocks.Heights{}},
		"a block to be seen":                     {target: "/", headers: []string{respond.MinHeightHeader, token}, want: blocks.Heights{Min: 99}},
		"a block to be seen in the URL":          {target: "/?x-min-block-height=99", want: blocks.Heights{Min: 99}},
		"a session":                              {target: "/", headers: []string{session.Header, token}, want: blocks.Heights{Session: session.Token{Height: 99, Hash: "A1A1A1A1"}}},
		"one of the execution client":            {target: "/", headers: []string{respond.MinEVMHeader, "7"}, rules: blocks.HeightRules{EVM: true}, want: blocks.Heights{EVM: 7}},
		"that where it may not be named":         {target: "/", headers: []string{respond.MinEVMHeader, "x"}},
		"a block to be seen before the height":   {target: "/?x-min-block-height=90", headers: []string{respond.HeightHeader, "90"}, want: blocks.Heights{Pinned: 90, Min: 90}},
		"a block to be seen above the height":    {target: "/?x-min-block-height=91", headers: []string{respond.HeightHeader, "90"}, refusal: "X-Min-Block-Height is above X-Block-Height: no block satisfies both"},
		"that where both may be":                 {target: "/?x-min-block-height=91", headers: []string{respond.HeightHeader, "90"}, rules: blocks.HeightRules{Loose: true}, want: blocks.Heights{Pinned: 90, Min: 91}},
		"an interface's own header":              {target: "/", headers: []string{respond.HeightHeader, "90"}, rules: blocks.HeightRules{Pinned: func(http.Header) (int64, error) { return 5, nil }}, want: blocks.Heights{Pinned: 5}},
		"an interface's own refusal":             {target: "/", rules: blocks.HeightRules{Pinned: func(http.Header) (int64, error) { return 0, failure.BadInput("not this one") }}, refusal: "not this one"},
		"height zero":                            {target: "/", headers: []string{respond.HeightHeader, "0"}, refusal: `X-Block-Height is "0"; expected a positive integer`},
		"a negative height":                      {target: "/", headers: []string{respond.HeightHeader, "-1"}, refusal: `X-Block-Height is "-1"; expected a positive integer`},
		"a height with a sign":                   {target: "/", headers: []string{respond.HeightHeader, "+1"}, refusal: `X-Block-Height is "+1"; expected a positive integer`},
		"a height beyond all":                    {target: "/", headers: []string{respond.HeightHeader, "9223372036854775808"}, refusal: `X-Block-Height is "9223372036854775808"; expected a positive integer`},
		"two heights":                            {target: "/?x-block-height=91", headers: []string{respond.HeightHeader, "90"}, refusal: "X-Block-Height is 90 and x-block-height is 91: they must be equal"},
		"two heights in the URL":                 {target: "/?x-block-height=90&x-block-height=91", refusal: "x-block-height is 90 and 91: they must be equal"},
		"two blocks to be seen":                  {target: "/?x-min-block-height=98", headers: []string{respond.MinHeightHeader, "99"}, refusal: "X-Min-Block-Height is 99 and x-min-block-height is 98: they must be equal"},
		"what is no block to be seen":            {target: "/?x-min-block-height=x", refusal: `x-min-block-height is "x"; expected a positive integer, or the X-Session of an answer`},
		"two sessions":                           {target: "/", headers: []string{session.Header, "1", session.Header, "2"}, refusal: "X-Session is given 2 times: send only the greatest"},
		"what is no session":                     {target: "/", headers: []string{session.Header, "x"}, refusal: `X-Session is "x"; expected a positive integer, or the X-Session of an answer`},
		"what is none of the execution client's": {target: "/", headers: []string{respond.MinEVMHeader, "x"}, rules: blocks.HeightRules{EVM: true}, refusal: `X-Min-Evm-Block is "x"; expected a positive integer`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.rules.Read(request(t, tt.target, tt.headers...))
			refusal := ""
			if err != nil {
				refusal = failure.Of(err).Public
			}
			if refusal != tt.refusal {
				t.Errorf("refusal = %q, want %q", refusal, tt.refusal)
			}
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
		if got != want {
			t.Errorf("query = %q, want %q", got, want)
		}
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
		dead string
		want string
	}{
		"still there": {"", "miss"},
		"replaced":    {"A1A1A1A1", "block 99 was rolled back: the chain has another block at this height"},
		"another one": {"B2B2B2B2", "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.dead = tt.dead
				hs, err := blocks.HeightRules{}.Read(request(t, "/", respond.MinHeightHeader, "99.A1A1A1A1"))
				if err != nil {
					t.Fatal(err)
				}
				if got := d.ask(t, hs, blocks.Snapshot{}); got.Outcome != tt.want {
					t.Errorf("got %q, want %q", got.Outcome, tt.want)
				}
				if hs.EVM = 1 << 40; tt.want != "miss" {
					if got := d.ask(t, hs, blocks.Snapshot{}); got.Outcome != tt.want {
						t.Errorf("with an execution block to wait for: got %q, want %q", got.Outcome, tt.want)
					}
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
		"a block":                     {blocks.Heights{Min: 101}, "the newest block is unknown at present: cannot wait for X-Min-Block-Height"},
		"one of the execution client": {blocks.Heights{EVM: 1101}, "the newest block is unknown at present: cannot wait for X-Min-Evm-Block"},
		"a session":                   {blocks.Heights{Session: session.Token{Height: 101}}, "miss"},
		"none":                        {blocks.Heights{}, "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.tip.Known = false
				if got := d.ask(t, tt.hs, blocks.Snapshot{}); got.Outcome != tt.want {
					t.Errorf("got %q, want %q", got.Outcome, tt.want)
				}
			})
		})
	}
}

func TestPageOfAWalkWaitsAtMostTwoBlocks(t *testing.T) {
	for name, tt := range map[string]struct {
		grows []time.Duration
		want  outcome
	}{
		"in time":    {[]time.Duration{time.Second}, outcome{101, "miss"}},
		"too late":   {[]time.Duration{5 * time.Second}, outcome{100, "miss"}},
		"at the end": {[]time.Duration{4*time.Second - 1}, outcome{101, "miss"}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				for _, after := range tt.grows {
					timer := time.AfterFunc(after, func() { d.nodes.grow(1) })
					defer timer.Stop()
				}
				if got := d.ask(t, blocks.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1}); got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestPagesOfOneRequestShareTheWait(t *testing.T) {
	behind(t, func(t *testing.T, d *frontend) {
		r := blocks.SharedWait(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		began := time.Now()
		for range 3 {
			q := d.query(blocks.Heights{}, blocks.Snapshot{Height: 101, Epoch: 1})()
			if a, err := d.Answer(r.Context(), r, &record.Record{}, q); err != nil || a.Entry.Height != 100 {
				t.Fatalf("got %+v, %v; want block 100", a, err)
			}
		}
		if waited := time.Since(began); waited != 4*time.Second {
			t.Errorf("three pages waited %v, want the 4 s of one", waited)
		}
	})
}
