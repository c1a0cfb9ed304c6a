package devnet_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	v5 = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0" // popular
	d0 = "0x243b338be72573f04688f16dbc05e281517330d0" // on 61 validators
	d1 = "0xa82f5d1f204b382d90ca549b695aedb7fde14817" // 129 period delegations on v5
)

// questions are one of each kind.
var questions = []string{
	"/staking/validators?pagination.limit=500&pagination.count_total=true",
	"/staking/validators/" + v5,
	"/staking/validators/" + v5 + "/delegations?pagination.limit=1000",
	"/staking/delegations/" + d0,
	"/staking/delegators/" + d0 + "/redelegations",
	"/staking/delegators/" + d0 + "/unbonding_delegations",
	"/staking/validators/" + v5 + "/delegators/" + d1 + "/period_delegations",
	"/distribution/delegators/" + d0 + "/rewards",
	"/distribution/validators/" + v5,
	"/staking/historical_info/890",
	"/staking/pool",
	"/bank/supply/by_denom?denom=stake",
	"/evmstaking/withdrawal_queue",
	"/staking/params",
}

func TestTwoDevnetsWithOneSeedAgree(t *testing.T) {
	a := start(t, devnet.Options{Seed: 7, Interval: -1})
	b := start(t, devnet.Options{Seed: 7, Interval: -1, StartHeight: 1500})
	other := start(t, devnet.Options{Seed: 8, Interval: -1})
	a.Advance(500)
	for _, q := range questions {
		if diff := cmp.Diff(get(t, a, q, 0), get(t, b, q, 0)); diff != "" {
			t.Errorf("%s: %s", q, diff)
		}
	}
	if get(t, a, questions[2], 900) == get(t, other, questions[2], 900) {
		t.Error("another seed gives the same delegators")
	}
}

func TestAGreatHeightIsNoTrouble(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, StartHeight: 20_000_000})
	for _, q := range questions {
		get(t, d, strings.Replace(q, "/890", "/19999000", 1), 0)
	}
}

func TestPinnedAnswersStayTheSame(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	before := map[string]string{}
	for _, q := range questions {
		before[q] = get(t, d, q, 1000)
	}
	d.Advance(400)
	for _, q := range questions {
		if diff := cmp.Diff(before[q], get(t, d, q, 1000)); diff != "" {
			t.Errorf("%s: %s", q, diff)
		}
	}
}

func TestSomethingChangesWithTheBlocks(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	changes, last := map[string]int{}, map[string]string{}
	for _, q := range questions {
		last[q] = get(t, d, q, 900)
	}
	for h := int64(901); h <= 980; h++ {
		for _, q := range questions {
			answer := get(t, d, q, h)
			if answer != last[q] {
				changes[q]++
			}
			last[q] = answer
		}
	}
	for q, want := range map[string][2]int{
		"/distribution/delegators/" + d0 + "/rewards": {80, 80},
		questions[0]:                     {12, 20},
		"/staking/validators/" + v5:      {4, 6},
		"/staking/delegations/" + d0:     {1, 12},
		"/staking/params":                {0, 0},
		"/staking/historical_info/890":   {0, 0},
		"/distribution/validators/" + v5: {80, 80},
	} {
		if got := changes[q]; got < want[0] || got > want[1] {
			t.Errorf("%s changed %d times in 80 blocks, want %d to %d", q, got, want[0], want[1])
		}
	}
}

func TestTheSumsAddUp(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Delegators: 300})
	for _, h := range []int64{6, 500, 777, 1000} {
		var list struct {
			Msg struct {
				DelegationResponses []struct {
					Delegation struct {
						Shares string
					}
				} `json:"delegation_responses"`
			}
		}
		decode(t, get(t, d, "/staking/validators/"+v5+"/delegations?pagination.limit=1000", h), &list)
		var single struct {
			Msg struct {
				Validator struct {
					Shares string `json:"delegator_shares"`
				}
			}
		}
		decode(t, get(t, d, "/staking/validators/"+v5, h), &single)
		var shares int64 // in 1/1,000
		for _, r := range list.Msg.DelegationResponses {
			shares += milli(t, r.Delegation.Shares)
		}
		if want := milli(t, single.Msg.Validator.Shares); shares != want {
			t.Errorf("at %d delegations sum up to %d, the validator has %d", h, shares, want)
		}
	}
}

// milli is a decimal without its last 15 digits.
func milli(t *testing.T, decimal string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.Replace(decimal[:len(decimal)-15], ".", "", 1), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWalkingByKeyVisitsEverythingOnce(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	for path, want := range map[string]int{
		"/staking/validators":                        71,
		"/staking/validators/" + v5 + "/delegations": 1600,
		"/staking/delegations/" + d0:                 61,
		"/staking/delegators/" + d0 + "/validators":  61,
	} {
		for _, reverse := range []string{"false", "true"} {
			seen := walk(t, d, path+"?pagination.limit=7&pagination.reverse="+reverse)
			slices.Sort(seen)
			if got := len(slices.Compact(slices.Clone(seen))); got != want || len(seen) != want {
				t.Errorf("%s reverse=%s: %d items, %d of them distinct, want %d", path, reverse, len(seen), got, want)
			}
		}
	}
}

// walk follows decoded next keys and returns the items of all pages.
func walk(t *testing.T, d *devnet.Devnet, path string) (items []string) {
	t.Helper()
	key := ""
	for {
		var answer struct{ Msg map[string]json.RawMessage }
		decode(t, get(t, d, path+"&pagination.key="+url.QueryEscape(key), 0), &answer)
		var page struct {
			NextKey string `json:"next_key"`
		}
		decode(t, string(answer.Msg["pagination"]), &page)
		delete(answer.Msg, "pagination")
		for _, list := range answer.Msg {
			var some []json.RawMessage
			decode(t, string(list), &some)
			for _, item := range some {
				items = append(items, string(item))
			}
		}
		if page.NextKey == "" {
			return items
		}
		raw, err := base64.StdEncoding.DecodeString(page.NextKey)
		if err != nil {
			t.Fatal(err)
		}
		key = string(raw)
	}
}

func TestPlacesBeyondTheCastAreGenerated(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Validators: 120, Delegators: 10_000})
	got := get(t, d, "/staking/validators?pagination.limit=1&pagination.count_total=true", 0)
	if !strings.Contains(got, `"total":"120"`) {
		t.Error(got)
	}
	got = get(t, d, "/staking/validators/"+v5+"/delegations?pagination.limit=1&pagination.count_total=true", 0)
	if !strings.Contains(got, `"total":"10000"`) {
		t.Error(got)
	}
}

func TestTheSamplesExist(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Delegators: 50})
	if got := []int{len(d.Validators()), len(d.Delegators())}; !cmp.Equal(got, []int{71, 50}) {
		t.Errorf("%v validators and delegators", got)
	}
	for _, uri := range []string{
		"/staking/validators/" + devnet.PopularValidator,
		"/staking/delegators/" + devnet.WideDelegator + "/validators/" + devnet.PopularValidator,
		"/staking/validators/" + devnet.PopularValidator + "/delegations/" + d1,
	} {
		get(t, d, uri, 0)
	}
}

func TestASizeThatIsTooSmallIsTheLeast(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Validators: 3, Delegators: 2, StartHeight: -1, Collections: -1})
	if got := []int{len(d.Validators()), len(d.Delegators()), int(d.Height())}; !cmp.Equal(got, []int{8, 4, 1}) {
		t.Errorf("%v validators, delegators and blocks", got)
	}
	get(t, d, "/staking/pool", 0)
}

// get reads one answer at a height, 0 for the latest, and wants a success.
func get(t testing.TB, d *devnet.Devnet, uri string, height int64) string {
	t.Helper()
	status, body := fetch(t, d.NodeURL()+uri, height)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", uri, status, body)
	}
	return body
}

func decode(t testing.TB, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%v: %.200s", err, body)
	}
}
