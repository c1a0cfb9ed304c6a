package cosmos

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

func rowOf(t *testing.T, x *Handler, e nodetest.Exchange) *dialect.Endpoint {
	t.Helper()
	path := expect.Value(url.PathUnescape(e.Path))(t)
	row, _ := x.parse(path, e.Query)
	return row
}

func TestRecordedPathsHaveRows(t *testing.T) {
	x := handlerOf(t)
	for _, e := range nodetest.Exchanges(t, "../../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		if e.Method != http.MethodGet || e.Status != 200 || strings.HasPrefix(e.Name, "rpc_") {
			continue
		}
		if row := rowOf(t, x, e); row.Row.Name == "other" || row.Row.Name == "tx_other" {
			t.Errorf("%s: row of %s = %s, want a row for this path", e.Name, e.Path, row.Row.Name)
		}
	}
}

// The recordings show which answers depend on the height in the header. Only their rows may be read at a height.
func TestClassesOfRowsMatchRecordings(t *testing.T) {
	x, recorded := handlerOf(t), map[string]nodetest.Exchange{}
	for _, e := range nodetest.Exchanges(t, "../../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		recorded[e.Name] = e
	}
	for name, class := range map[string]blocks.Class{
		"pin_block_latest_past": blocks.Latest, "pin_tx_past": blocks.Found, "pin_tx_block_past": blocks.Block, "pin_tx_search_past": blocks.Latest,
		"pin_node_info_past": blocks.Never, "pin_syncing_past": blocks.Never, "pin_node_config_past": blocks.Never, "pin_abci_query_past": blocks.Never, "pin_node_status_past": blocks.Never,
		"ok_validatorset_latest": blocks.Latest, "ok_validatorset_by_height_100": blocks.Block, "pruned_block_50": blocks.Block, "pruned_validatorset_50": blocks.Block,
		"pin_historical_past": blocks.Live, "pin_bech32_past": blocks.Params, "height_pool_past_10": blocks.Live, "wasm_smart_recurse_past": blocks.Live,
		"ok_ibc_transfer_params": blocks.Params, "ok_group_info": blocks.Live, "path_unknown_module": blocks.Live,
	} {
		e := recorded[name]
		expect.Equal(t, rowOf(t, x, e).Row.Class, class, "%s: %s", name, e.Path)
	}
	for _, e := range recorded {
		if e.Method != http.MethodGet || e.Status == 200 || e.Answer["Grpc-Metadata-X-Cosmos-Block-Height"] == "" {
			continue
		}
		if row := rowOf(t, x, e); strings.HasPrefix(e.Name, "twoheights_") && !row.Row.Class.ReadsState() {
			t.Errorf("%s: class of row %s = %s, want one that reads state, because the answer depends on the height", e.Name, row.Row.Name, row.Row.Class)
		}
	}
}

func TestRowNamesAreUnique(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rows(nil) {
		if names[r.Name] {
			t.Errorf("rows with the name %s = 2, want 1", r.Name)
		}
		names[r.Name] = true
	}
}

func TestRowsOfOperatorComeFirst(t *testing.T) {
	x := handlerOf(t, expect.Value(ParseRow("pool /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live cheap denom pagination"))(t))
	expect.Equal(t, keyOf(t, x, "/osmosis/gamm/v1beta1/pools/0x1?x=y"), keyOf(t, x, "/osmosis/gamm/v1beta1/pools/1"), "key of an equivalent request")
	row, _ := x.parse("/osmosis/gamm/v1beta1/pools/1", "")
	expect.Equal(t, row.Row.Name, "pool", "row")
}

func TestRowIsParsedFromLine(t *testing.T) {
	r := expect.Value(ParseRow("pools /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live page denom pagination"))(t)
	want := dialect.Row{Name: "pools", Pattern: "/osmosis/gamm/v1beta1/pools/{pool_id:uint64}", Class: blocks.Live, Cost: node.Page, Query: "denom pagination"}
	expect.NoDiff(t, r, want, "row")
}

func TestInvalidRowsAreRefused(t *testing.T) {
	for name, line := range map[string]string{
		"an empty line":         "",
		"no cost":               "a /a live",
		"an unknown cost":       "a /a live dear",
		"an unknown class":      "a /a fresh cheap",
		"a slash in the name":   "a/b /a live cheap",
		"a relative pattern":    "a a live cheap",
		"an unknown kind":       "a /a/{b:float} live cheap",
		"an open variable":      "a /a/{b live cheap",
		"a list in the path":    "a /a/{denoms} live cheap",
		"a segment after **":    "a /a/{b=**}/c live cheap",
		"an unknown kind below": "a /a live cheap b:float",
	} {
		if r, err := ParseRow(line); err == nil {
			t.Errorf("%s: ParseRow(%q) = %+v, want an error", name, line, r)
		}
	}
}
