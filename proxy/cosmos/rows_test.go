package cosmos

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

func rowOf(t *testing.T, x *Handler, e nodetest.Exchange) *dialect.Endpoint {
	t.Helper()
	path := expect.Value(url.PathUnescape(e.Path))(t)
	row, _ := x.ask(path, e.Query)
	return row
}

// TestEveryRecordedPathHasRow shows the table whole: what a real node answered has a row of its own.
func TestEveryRecordedPathHasRow(t *testing.T) {
	x := handlerOf(t)
	for _, e := range nodetest.Exchanges(t, "../../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		if e.Method != http.MethodGet || e.Status != 200 || strings.HasPrefix(e.Name, "rpc_") {
			continue
		}
		if row := rowOf(t, x, e); row.Name == "other" || row.Name == "tx_other" {
			t.Errorf("%s: %s has only the generic row %s", e.Name, e.Path, row.Name)
		}
	}
}

// TestOnlyStateIsPinned proves the classes: where the answers at two heights were the same block's,
// whatever the header said, the row must not be pinned; where an error told a height, it must be.
func TestOnlyStateIsPinned(t *testing.T) {
	x, recorded := handlerOf(t), map[string]nodetest.Exchange{}
	for _, e := range nodetest.Exchanges(t, "../../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		recorded[e.Name] = e
	}
	for name, class := range map[string]blocks.Class{
		"pin_block_latest_past": Latest, "pin_tx_past": Found, "pin_tx_block_past": Block, "pin_tx_search_past": Latest,
		"pin_node_info_past": Never, "pin_syncing_past": Never, "pin_node_config_past": Never, "pin_abci_query_past": Never, "pin_node_status_past": Never,
		"ok_validatorset_latest": Latest, "ok_validatorset_by_height_100": Block, "pruned_block_50": Block, "pruned_validatorset_50": Block,
		"pin_historical_past": Live, "pin_bech32_past": Params, "height_pool_past_10": Live, "wasm_smart_recurse_past": Live,
		"ok_ibc_transfer_params": Params, "ok_group_info": Live, "path_unknown_module": Live,
	} {
		e := recorded[name]
		expect.Equal(t, rowOf(t, x, e).Class, class, "%s: %s", name, e.Path)
	}
	for _, e := range recorded {
		if e.Method != http.MethodGet || e.Status == 200 || e.Answer["Grpc-Metadata-X-Cosmos-Block-Height"] == "" {
			continue
		}
		if row := rowOf(t, x, e); strings.HasPrefix(e.Name, "twoheights_") && !row.Class.ReadsState() {
			t.Errorf("%s: the answer depends on the height, and the row %s is %s", e.Name, row.Name, row.Class)
		}
	}
}

func TestRowNamesAreUnique(t *testing.T) {
	var names []string
	for _, r := range table {
		expect.NoError(t, check(r))
		if slices.Contains(names, r.Name) {
			t.Errorf("%s is there twice", r.Name)
		}
		names = append(names, r.Name)
	}
}

func TestRowsOfOperatorComeFirst(t *testing.T) {
	x := handlerOf(t, row("pool", "/osmosis/gamm/v1beta1/pools/{pool_id:uint64}", Live, node.Cheap, "denom pagination", ""))
	if a, b := keyOf(t, x, "/osmosis/gamm/v1beta1/pools/0x1?x=y"), keyOf(t, x, "/osmosis/gamm/v1beta1/pools/1"); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if row, _ := x.ask("/osmosis/gamm/v1beta1/pools/1", ""); row.Name != "pool" {
		t.Errorf("got %s", row.Name)
	}
}

func TestRowIsParsedFromLine(t *testing.T) {
	r, err := ParseRow("pools /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live page denom pagination")
	want := row("pools", "/osmosis/gamm/v1beta1/pools/{pool_id:uint64}", Live, node.Page, "denom pagination", "")
	if diff := gocmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, line := range []string{"", "pools /a live", "pools /a live dear", "pools /a fresh cheap", "pools a live cheap"} {
		if r, err := ParseRow(line); err == nil {
			t.Errorf("%q is taken for %v", line, r)
		}
	}
}

func TestBadRowsAreRefused(t *testing.T) {
	for name, r := range map[string]dialect.Row{
		"no name":               row("", "/a", Live, 0, "", ""),
		"a relative pattern":    row("a", "a", Live, 0, "", ""),
		"no class":              row("a", "/a", "", 0, "", ""),
		"an unknown class":      row("a", "/a", "fresh", 0, "", ""),
		"an unknown kind":       row("a", "/a/{b:float}", Live, 0, "", ""),
		"an open variable":      row("a", "/a/{b", Live, 0, "", ""),
		"a list in the path":    row("a", "/a/{denoms}", Live, 0, "", ""),
		"something behind **":   row("a", "/a/{b=**}/c", Live, 0, "", ""),
		"an unknown kind below": row("a", "/a", Live, 0, "b:float", ""),
	} {
		if check(r) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
