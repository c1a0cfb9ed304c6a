package devnet_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// client neither follows redirects nor requests compression.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true},
	Timeout:       20 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func TestMain(m *testing.M) {
	// After a refused request net/http waits half a second for the client to read the response. goleak waits less.
	lingering := goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")
	goleak.VerifyTestMain(m, lingering, goleak.Cleanup(func(code int) {
		client.CloseIdleConnections()
		os.Exit(code)
	}))
}

func start(t testing.TB, o devnet.Options) *devnet.Devnet {
	t.Helper()
	return devnettest.Start(t, o)
}

// fetch reads a URL at a height, 0 being the latest.
func fetch(t testing.TB, target string, height int64) (status int, body string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))(t)
	if height != 0 {
		r.Header.Set("X-Block-Height", strconv.FormatInt(height, 10))
	}
	resp := expect.Value(client.Do(r))(t)
	defer resp.Body.Close()
	raw := expect.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(raw)
}

const (
	v5 = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0" // a popular validator
	d0 = "0x243b338be72573f04688f16dbc05e281517330d0" // delegates to 61 validators
	d1 = "0xa82f5d1f204b382d90ca549b695aedb7fde14817" // has 129 period delegations to v5
)

// paths has a path of each kind.
var paths = []string{
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
	for _, q := range paths {
		expect.NoDiff(t, get(t, b, q, 0), get(t, a, q, 0), "%s", q)
	}
	if get(t, a, paths[2], 900) == get(t, other, paths[2], 900) {
		t.Error("delegations of two seeds are equal")
	}
}

func TestSomethingChangesWithTheBlocks(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	changes, last := map[string]int{}, map[string]string{}
	for _, q := range paths {
		last[q] = get(t, d, q, 900)
	}
	for h := int64(901); h <= 980; h++ {
		for _, q := range paths {
			answer := get(t, d, q, h)
			if answer != last[q] {
				changes[q]++
			}
			last[q] = answer
		}
	}
	for q, want := range map[string][2]int{
		"/distribution/delegators/" + d0 + "/rewards": {80, 80},
		paths[0]:                         {12, 20},
		"/staking/validators/" + v5:      {4, 6},
		"/staking/delegations/" + d0:     {1, 12},
		"/staking/params":                {0, 0},
		"/staking/historical_info/890":   {0, 0},
		"/distribution/validators/" + v5: {80, 80},
	} {
		if got := changes[q]; got < want[0] || got > want[1] {
			t.Errorf("changes of %s in 80 blocks = %d, want %d to %d", q, got, want[0], want[1])
		}
	}
}

func TestSamplesExist(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Delegators: 50})
	expect.Equal(t, len(d.Validators()), 71, "validators")
	expect.Equal(t, len(d.Delegators()), 50, "delegators")
	for _, uri := range []string{
		"/staking/validators/" + devnet.PopularValidator,
		"/staking/delegators/" + devnet.WideDelegator + "/validators/" + devnet.PopularValidator,
		"/staking/validators/" + devnet.PopularValidator + "/delegations/" + d1,
	} {
		get(t, d, uri, 0)
	}
}

// get reads a response at a height, 0 being the latest, and stops the test unless it is a success.
func get(t testing.TB, d *devnet.Devnet, uri string, height int64) string {
	t.Helper()
	status, body := fetch(t, d.NodeURL()+uri, height)
	if status != http.StatusOK {
		t.Fatalf("%s = %d %s, want 200", uri, status, body)
	}
	return body
}

func decode(t testing.TB, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("decode %.200s: %v", body, err)
	}
}

func TestIndexersCanReadValidatorsAndExecutionBlocks(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	_, validators := post(t, d.CometURL(), `{"jsonrpc":"2.0","id":1,"method":"validators","params":{"height":"1000"}}`)
	key := gjson.GetBytes(validators, "result.validators.0.pub_key.value").Str
	operator := get(t, d, "/staking/validators/"+devnet.PopularValidator, 0)
	expect.Equal(t, key, gjson.Get(operator, "msg.validator.consensus_pubkey.value").Str, "public key of the only signer")
	_, block := post(t, d.EVMURL(), `{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",true]}`)
	for _, name := range []string{"parentHash", "sha3Uncles", "stateRoot", "transactionsRoot", "receiptsRoot", "difficulty", "gasLimit", "gasUsed", "extraData"} {
		if !gjson.GetBytes(block, "result."+name).Exists() {
			t.Errorf("execution block lacks %s, which clients require", name)
		}
	}
}

func TestDelegationIsPartOfTheStateAfterItsExecutionBlock(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Delegators: 50})
	const tokens = 1e16 // more than all events add
	path := "/staking/validators/" + devnet.PopularValidator + "/delegations/" + d1
	read := func(height int64) (tokens float64) {
		var answer struct {
			Msg struct {
				Response struct {
					Balance struct {
						Amount float64 `json:",string"`
					}
				} `json:"delegation_response"`
			}
		}
		decode(t, get(t, d, path, height), &answer)
		return answer.Msg.Response.Balance.Amount
	}
	before, height := read(0), d.Height()
	block := d.Delegate(d1, tokens)
	if want := d.EVM().Height() + 1; block != want {
		t.Errorf("execution block = %d, want the next one, %d", block, want)
	}
	d.Advance(2)
	for at, want := range map[int64]bool{height: false, height + 1: false, height + 2: true} {
		expect.Equal(t, read(at) >= before+tokens, want, "state at block %d includes the delegation", at)
	}
	const d2 = "0x5244f20ed88040a6e54be2bd26f68d993d71b8fd"
	d.Delegate(d2, tokens)
	d.Advance(2)
	of := func(path, value string) string {
		return gjson.Get(get(t, d, "/staking/validators/"+devnet.PopularValidator+path, 0), "msg."+value+".balance.amount").Str
	}
	want := of("/delegations/"+d2, "delegation_response")
	expect.Equal(t, of("/delegators/"+d2+"/period_delegations", "period_delegation_responses.0"), want, "tokens of the period delegation")
	expect.Equal(t, of("/delegators/"+d2+"/period_delegations/0", "period_delegation_response"), want, "tokens of the period delegation 0")
}
