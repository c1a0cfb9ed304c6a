package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// This recording is too long for an example of the manual.
func TestRecordedHistoricalInfoMatchesTheDocument(t *testing.T) {
	d := readContract(t, startChain(t, proxy.Options{}).Config.Handler)
	d.validate(t, d.operation(t, "historical_info"), "200", readFile(t, "testdata/historical_info.json"))
}

// Members of msg may all be absent only where the node omits an unset address, upgrade or list.
func TestDocumentSaysWhichMembersAResponseAlwaysHas(t *testing.T) {
	optional := []string{"applied_plan", "current_plan", "operator_address", "reward_address", "rewarding_validators", "withdraw_address"}
	d := readContract(t, startChain(t, proxy.Options{}).Config.Handler)
	for _, op := range d.operations() {
		if op.path == blocks.BatchPath {
			continue
		}
		msg := d.at(op.body, "responses", "200", "content", "application/json", "schema", "properties", "msg")
		if d.at(msg, "type") == "array" {
			msg = d.at(msg, "items")
		}
		required, _ := d.at(msg, "required").([]any)
		switch isOptional := slices.Contains(optional, op.id); {
		case d.at(msg, "properties") == nil:
			t.Errorf("%s: document describes no member of msg", op.id)
		case isOptional == (len(required) > 0):
			t.Errorf("%s: required members of msg = %v, want any: %t", op.id, required, !isOptional)
		}
	}
	pool := d.at(d.operation(t, "pool").body, "responses", "200", "content", "application/json", "schema", "properties", "msg", "properties", "pool")
	expect.Equal(t, fmt.Sprint(d.at(pool, "required")), "[not_bonded_tokens bonded_tokens]", "required members of pool")
}

// Generators make identifiers of names, which drop punctuation and case.
func TestNamesOfTheDocumentDifferAsIdentifiers(t *testing.T) {
	for dialect, h := range map[string]http.Handler{
		"Story":   startList(t, listing.Options{}).Config.Handler,
		"the SDK": newSDK(t, devnet.Options{}, nil).proxy,
	} {
		d := readContract(t, h)
		for kind, components := range d.at(d.doc, "components").(map[string]any) {
			seen := map[string]string{}
			for name := range components.(map[string]any) {
				identifier := strings.ToLower(strings.NewReplacer("-", "", ".", "", "_", "").Replace(name))
				if other := seen[identifier]; other != "" {
					t.Errorf("%s: %s %s and %s are the same identifier", dialect, kind, other, name)
				}
				seen[identifier] = name
			}
		}
		for _, op := range d.operations() {
			if op.id == "params" || op.id == "options" { // a generated function has arguments of these names
				t.Errorf("%s: operation id %s hides an argument of generated functions", dialect, op.id)
			}
		}
	}
}
