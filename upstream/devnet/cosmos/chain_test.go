package cosmos_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
	"github.com/tipcache/tipcache/upstream/protofield"
)

func newChain(delegators int) *cosmos.Chain {
	return cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: delegators})
}

// nodeAt returns a node of a chain whose newest block has a height.
func nodeAt(chain *cosmos.Chain, height int64) http.Handler {
	return chain.Handler(clock{height, 1, false}, false, func(string, int64) {})
}

// get reads a path at a height, 0 being the latest.
func get(t *testing.T, node http.Handler, path string, height int64) (*httptest.ResponseRecorder, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if height != 0 {
		r.Header.Set("X-Cosmos-Block-Height", strconv.FormatInt(height, 10))
	}
	w := httptest.NewRecorder()
	node.ServeHTTP(w, r)
	return w, w.Body.String()
}

func TestStateMovesWithTheBlocksAndStaysAtAHeight(t *testing.T) {
	chain := newChain(1530)
	before := nodeAt(chain, 1000)
	after := nodeAt(chain, 1001)
	for _, path := range []string{
		"/cosmos/distribution/v1beta1/delegators/" + cosmos.WideDelegator + "/rewards",
		"/cosmos/staking/v1beta1/delegations/" + cosmos.WideDelegator,
		"/cosmos/bank/v1beta1/balances/" + cosmos.WideDelegator + "/by_denom?denom=stake",
		"/cosmos/auth/v1beta1/accounts/" + cosmos.WideDelegator,
		"/cosmos/gov/v1/proposals/" + cosmos.VotedProposal + "/tally",
		"/cosmos/staking/v1beta1/validators", "/cosmos/staking/v1beta1/pool", "/cosmos/mint/v1beta1/inflation",
		"/cosmos/base/tendermint/v1beta1/blocks/latest",
	} {
		_, at1000 := get(t, before, path, 0)
		_, at1001 := get(t, after, path, 0)
		if at1000 == at1001 {
			t.Errorf("%s after a block = %s, want it changed", path, at1000)
		}
		if _, pinned := get(t, after, path, 1000); pinned != at1000 && !strings.Contains(path, "/tendermint/") {
			t.Errorf("%s at 1000 = %s, want %s", path, pinned, at1000)
		}
	}
}

func TestHeightHeaderIsWrongForCometBFTResponses(t *testing.T) {
	node := nodeAt(newChain(1530), 1000)
	w, body := get(t, node, "/cosmos/base/tendermint/v1beta1/blocks/latest", 820)
	expect.Equal(t, gjson.Get(body, "block.header.height").String(), "1000", "block")
	expect.Equal(t, w.Header().Get("X-Cosmos-Block-Height"), "820", "height")
}

func TestPagesLeadThroughAList(t *testing.T) {
	node := nodeAt(newChain(25), 1000)
	for _, direction := range []string{"false", "true"} {
		seen, key := map[string]bool{}, ""
		for range 10 {
			_, body := get(t, node, "/cosmos/staking/v1beta1/validators/"+cosmos.PopularValidator+"/delegations?pagination.limit=7&pagination.reverse="+direction+"&pagination.key="+url.QueryEscape(key), 0)
			for _, d := range gjson.Get(body, "delegation_responses.#.delegation.delegator_address").Array() {
				if seen[d.String()] {
					t.Fatalf("reverse %s: %s is on two pages", direction, d)
				}
				seen[d.String()] = true
			}
			if key = gjson.Get(body, "pagination.next_key").String(); key == "" {
				break
			}
		}
		expect.Equal(t, len(seen), 26, "delegations with reverse %s, including the validator's own", direction)
	}
}

func TestBroadcastTransactionIsInTheNextBlock(t *testing.T) {
	chain := newChain(1530)
	var send string
	for _, x := range nodetest.Exchanges(t, "testdata/exchanges.jsonl") {
		if x.Name == "post_broadcast_sync_ok" {
			send = x.Body
		}
	}
	const sender = "/cosmos/auth/v1beta1/accounts/cosmos12kutx3kczqewx4jz7wte4fenenh7z3m257zlez"
	post := func(want int64) string {
		t.Helper()
		w := httptest.NewRecorder()
		nodeAt(chain, 1000).ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/cosmos/tx/v1beta1/txs", strings.NewReader(send)))
		var answer struct {
			Response struct {
				Code int64  `json:"code"`
				Hash string `json:"txhash"`
			} `json:"tx_response"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response.Code != want {
			t.Fatalf("broadcast = %s, %v; want code %d", w.Body, err, want)
		}
		return answer.Response.Hash
	}
	hash := post(0)
	post(19)
	for height, want := range map[int64]struct {
		status   int
		sequence string
	}{1000: {404, "23"}, 1001: {200, "24"}} {
		node := nodeAt(chain, height)
		w, _ := get(t, node, "/cosmos/tx/v1beta1/txs/"+strings.ToLower(hash), 0)
		expect.Equal(t, w.Code, want.status, "status of the transaction at %d", height)
		_, body := get(t, node, sender, 0)
		expect.Equal(t, gjson.Get(body, "account.sequence").String(), want.sequence, "sequence at %d", height)
		_, found := get(t, node, "/cosmos/tx/v1beta1/txs?query=message.sender='cosmos12kutx3kczqewx4jz7wte4fenenh7z3m257zlez'&order_by=ORDER_BY_DESC", 0)
		if got := gjson.Get(found, "tx_responses.0.txhash").Str; (got == hash) != (want.status == http.StatusOK) {
			t.Errorf("search for the sender at %d = %.100s, want %s once it is in a block", height, found, hash)
		}
	}
}

func TestPathsThatExplorersReadAreImplemented(t *testing.T) {
	node := nodeAt(newChain(5), 1000)
	for path, want := range map[string]int{
		"/cosmwasm/wasm/v1/code/1/contracts":                                    http.StatusOK,
		"/cosmwasm/wasm/v1/code/9/contracts":                                    http.StatusOK,
		"/ibc/core/connection/v1/connections/connection-localhost/client_state": http.StatusNotFound,
	} {
		w, _ := get(t, node, path, 0)
		expect.Equal(t, w.Code, want, "status of %s", path)
	}
}

func TestNoRequestMakesTheSimulationPanic(t *testing.T) {
	node := nodeAt(newChain(5), 3)
	for _, x := range nodetest.Exchanges(t, "testdata/exchanges.jsonl") {
		if !strings.HasPrefix(x.Name, "rpc_") {
			node.ServeHTTP(httptest.NewRecorder(), exchange{x}.request(t)) // at a height before anything of it existed
		}
	}
	for _, path := range []string{"/:", "/", "/a:", "/cosmos", "/cosmos/staking/v1beta1/validators?pagination.key=AA==&pagination.limit=18446744073709551615&pagination.reverse=1"} {
		get(t, node, path, 0)
	}
}

func TestErrorForMissingParameterNamesNoValue(t *testing.T) {
	node := nodeAt(newChain(1530), 1000)
	for path, want := range map[string]string{
		"/cosmos/bank/v1beta1/denoms_metadata_by_query_string":         "client metadata for denom ",
		"/cosmos/bank/v1beta1/denoms_metadata_by_query_string?denom=x": "client metadata for denom x",
		"/cosmos/epochs/v1beta1/current_epoch":                         "not available identifier: ",
	} {
		_, body := get(t, node, path, 0)
		expect.Equal(t, gjson.Get(body, "message").String(), want, "message of %s", path)
	}
}

// The answers are from a real node, except for amounts and keys.
func TestServicesAnswerByABCIAsANodeDoes(t *testing.T) {
	const bank, wallet = "/cosmos.bank.v1beta1.Query/Balance", "\n\x2d" + cosmos.Wallet + "\x12\x05stake"
	chain := cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: 1530})
	for _, tt := range []struct {
		name, path, data string
		height           int64
		want             cosmos.Answer
	}{
		{"balance", bank, wallet, 14, cosmos.Answer{Value: []byte("\n\x13\n\x05stake\x12\n1000000000"), Height: 14}},
		{"newest balance", bank, wallet, 0, cosmos.Answer{Value: []byte("\n\x13\n\x05stake\x12\n1000000000"), Height: 1000}},
		{"parameters", "/cosmos.staking.v1beta1.Query/Params", "", 14, cosmos.Answer{Value: []byte("\n\x16\n\x03\x08\x96\x01\x10d\x18\x07\x20\x90N\x2a\x05stake2\x010"), Height: 14}},
		{"future block", bank, wallet, 1001, cosmos.Answer{Code: 26, Codespace: "sdk", Log: "cannot query with height in the future; please provide a valid height: invalid height"}},
		{"missing method", "/cosmos.bank.v1beta1.Query/Nope", "", 14, cosmos.Answer{Code: 6, Codespace: "sdk", Log: "unknown query path: unknown request"}},
		{"invalid address", bank, "\n\x04nope\x12\x05stake", 14, cosmos.Answer{Code: 18, Codespace: "sdk", Height: 14,
			Log: "rpc error: code = InvalidArgument desc = invalid address: decoding bech32 failed: invalid bech32 string length 4: invalid request"}},
		{"missing account", "/cosmos.auth.v1beta1.Query/Account", "\n\x2dcosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu", 14, cosmos.Answer{Code: 22, Codespace: "sdk", Height: 14,
			Log: "rpc error: code = NotFound desc = account cosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu not found: key not found"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := chain.Query(clock{1000, 1, false}, tt.path, []byte(tt.data), tt.height)
			if (got.Status == 0) != (tt.want.Code == 0) || (got.Message == "") != (tt.want.Code == 0) {
				t.Errorf("gRPC status = %d %q, want an error only if ABCI has one", got.Status, got.Message)
			}
			got.Status, got.Message = 0, ""
			expect.NoDiff(t, got, tt.want, "answer")
		})
	}
}

func TestTransactionIsInTheChainOnceHoweverManyClientsSendIt(t *testing.T) {
	chain := newChain(4)
	for i := range int64(2000) {
		raw := protofield.Append(nil, 1, "body", 2, "auth", 3, i+1)
		var added atomic.Int64
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				if _, a := chain.Broadcast(i, raw); a.Code == 0 {
					added.Add(1)
				}
			})
		}
		clients.Wait()
		if added.Load() != 1 {
			t.Fatalf("transaction %d was added %d times, want once", i, added.Load())
		}
	}
}

func TestFirstTransactionsAreFoundInTheirBlocksOnly(t *testing.T) {
	node := nodeAt(newChain(4), 20)
	for height, want := range map[int]int{17: 0, 18: 1, 20: 1} {
		_, block := get(t, node, fmt.Sprintf("/cosmos/base/tendermint/v1beta1/blocks/%d", height), 0)
		_, listed := get(t, node, fmt.Sprintf("/cosmos/tx/v1beta1/txs/block/%d", height), 0)
		txs := gjson.Get(block, "block.data.txs").Array()
		expect.Equal(t, len(txs), want, "transactions in block %d", height)
		expect.Equal(t, len(gjson.Get(listed, "txs").Array()), want, "listed transactions of block %d", height)
		for _, tx := range txs {
			raw := expect.Value(base64.StdEncoding.DecodeString(tx.Str))(t)
			_, found := get(t, node, fmt.Sprintf("/cosmos/tx/v1beta1/txs/%X", sha256.Sum256(raw)), 0)
			expect.Equal(t, gjson.Get(found, "tx_response.height").Int(), int64(height), "block of the transaction in block %d", height)
		}
	}
}
