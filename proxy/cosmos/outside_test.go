package cosmos

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestRowsOutsideStateAreNeverCached(t *testing.T) {
	x := handlerOf(t)
	rows := dialect.MethodRows(Rows(nil))
	for _, r := range outside() {
		expect.Equal(t, r.Class, blocks.Never, "class of the row %s", r.Name)
		if r.Method != "" && rows[r.Method].Class != blocks.Never {
			t.Errorf("row %q: class of the method %s = %v, want %v", r.Name, r.Method, rows[r.Method].Class, blocks.Never)
		}
		if r.Pattern == "" {
			continue
		}
		path := strings.NewReplacer("{path=**}", "a/b", "{denom}", "uosmo", "{pool_id}", "1").Replace(r.Pattern)
		if row, _ := x.parse(path, ""); row == nil || row.Row.Name != r.Name {
			t.Errorf("row of %s = %v, want %s", path, row, r.Name)
		}
	}
}

func TestRowsOutsideStateHaveSource(t *testing.T) {
	source := ""
	for line := range strings.Lines(outsideText) {
		if line != "\n" && line[0] != '#' && !strings.HasPrefix(source, "# https://github.com/") {
			t.Errorf("line above %q = %q, want the URL of the code", line, source)
		}
		source = line
	}
}

func TestRowsOutsideStateHaveMethodsOfTheirChains(t *testing.T) {
	rows := dialect.MethodRows(Rows(nil))
	for method, want := range map[string]bool{
		"/osmosis.txfees.v1beta1.Query/GetEipBaseFee": true, "/injective.txfees.v1beta1.Query/GetEipBaseFee": true,
		"/osmosis.poolmanager.v1beta1.Query/TakerFeeShareAgreementFromDenom": true, "/dydxprotocol.clob.Query/StatefulOrder": true,
		"/dydxprotocol.clob.Query/Leverage": true, "/cosmos.evm.vm.v1.Query/Config": true, "/story.dkg.v1.types.Query/GetCDRPartialsHistory": true,
		"/osmosis.poolmanager.v1beta1.Query/AllTakerFeeShareAgreements": false, "/dydxprotocol.clob.Query/ClobPair": false, "/cosmos.bank.v1beta1.Query/Balance": false,
	} {
		expect.Equal(t, rows[method].Class == blocks.Never, want, "whether %s is never cached", method)
	}
}

func TestRowOfOperatorWinsOverBuiltInRows(t *testing.T) {
	own := expect.Value(ParseRow("fee /osmosis/txfees/v1beta1/cur_eip_base_fee live cheap"))(t)
	if row, _ := handlerOf(t, own).parse("/osmosis/txfees/v1beta1/cur_eip_base_fee", ""); row.Row.Name != "fee" || row.Row.Class != blocks.Live {
		t.Errorf("row = %s of class %s, want fee of class live", row.Row.Name, row.Row.Class)
	}
	method := expect.Value(ParseRow("fee_method /osmosis.txfees.v1beta1.Query/GetEipBaseFee live page"))(t)
	_, methods := Split([]dialect.Row{own, method})
	row := dialect.MethodRows(methods, Rows(nil))["/osmosis.txfees.v1beta1.Query/GetEipBaseFee"]
	if row.Class != blocks.Live || row.Cost != node.Page {
		t.Errorf("row of the method has class %s and cost %s, want live and %s as in the operator's row", row.Class, row.Cost, node.Page)
	}
	handlerOf(t, method) // a row without a path is valid
}

func TestRowForMethodIsLiveOrNever(t *testing.T) {
	for line, ok := range map[string]bool{
		"m /a.b.Query/M never cheap": true, "m /a.b.Query/M live scan": true,
		"m /a.b.Query/M params cheap": false, "m /a.b.Query/M never cheap *": false, "m /a.b.Query/{m} never cheap": true,
	} {
		if r, err := ParseRow(line); (err == nil) != ok {
			t.Errorf("ParseRow(%q) = %+v, %v; want success %t", line, r, err, ok)
		}
	}
}

func TestVariesReportsRowsWithVaryingOrder(t *testing.T) {
	x := handlerOf(t)
	for name, want := range map[string]bool{
		keyOf(t, x, "/cosmos/auth/v1beta1/module_accounts"):     true,
		"/cosmos.auth.v1beta1.Query/ModuleAccounts":             true,
		keyOf(t, x, "/cosmos/auth/v1beta1/module_accounts/gov"): false,
		"/cosmos.bank.v1beta1.Query/Params":                     false,
	} {
		expect.Equal(t, Varies(name), want, "Varies(%s)", name)
	}
	if row, _ := x.parse("/cosmos/base/reflection/v1beta1/interfaces", ""); row.Row.Class != blocks.Never {
		t.Errorf("class of reflection = %s, want %s", row.Row.Class, blocks.Never)
	}
}
