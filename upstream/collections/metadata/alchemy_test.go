package metadata_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

var update = flag.Bool("update", false, "write the golden files")

// compareWithFile compares JSON, including the order of its members, with a file.
func compareWithFile(t *testing.T, name string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatalf("description = %s, want JSON: %v", got, err)
	}
	indented.WriteByte('\n')
	file := filepath.Join("testdata", name)
	if *update {
		expect.NoError(t, os.WriteFile(file, indented.Bytes(), 0o644))
	}
	want := expect.Value(os.ReadFile(file))(t)
	expect.NoDiff(t, indented.String(), string(want), "description")
}

func TestAlchemyContractsHaveDocumentedForm(t *testing.T) {
	const address = "0xe785e82358879f061bc3dcac6f0444462d4b5330"
	for _, name := range []string{"full", "nulls", "bare_array", "wrong_types"} {
		t.Run(name, func(t *testing.T) {
			answer := expect.Value(os.ReadFile(filepath.Join("testdata", "alchemy_"+name+".json")))(t)
			s := openAlchemy(t, &alchemy{fault: text(string(answer))}, unhurried(metadata.Options{Chain: "story-mainnet"}))
			found, degraded := s.Lookup(t.Context(), []string{address})
			if degraded {
				t.Error("page is degraded, want it complete")
			}
			compareWithFile(t, name+".golden.json", found[address])
		})
	}
}

func TestAlchemyHasNoRecord(t *testing.T) {
	tests := map[string]string{
		"of an address that it omits":                 `{"contracts":[]}`,
		"of an address that is not a contract":        `{"contracts":[{"address":"` + one + `","name":"x","tokenType":"NOT_A_CONTRACT"}]}`,
		"of a contract without name, symbol, creator": `[{"address":"` + one + `","name":null,"tokenType":"UNKNOWN","totalSupply":"3"}]`,
		"of a contract that is null":                  `[null]`,
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			store := &memory{}
			s := openAlchemy(t, &alchemy{fault: text(answer)}, unhurried(metadata.Options{Store: store, Chain: "c"}))
			found, degraded := s.Lookup(t.Context(), []string{one})
			if string(found[one]) != "{}" || degraded {
				t.Errorf("Lookup = %s, degraded %v; want {}, false", found[one], degraded)
			}
			s.Close()
			expect.NoDiff(t, store.keys(), []string{one}, "stored keys")
		})
	}
}
