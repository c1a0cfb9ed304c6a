package jsonrpc

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is read in the short way is what encoding/json reads.
func FuzzCallsAreReadAlike(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"status","params":{"a":[1,"x"]}}`, `{"id":"x","method":"m"}`, `{"ID":1,"method":"m","params":null}`, `{"id":1.0,"method":"m"}`,
		`{"id":1,"id":2}`, `{"id":-1}`, `{"id":007}`, `{"id":"<"}`, `{"id":"\u0041"}`, `{"id":1e3}`, `{"id":12345678901234567890}`, `{"params":3,"id":1}`, `{"method":3}`, ` {} `, `{"x":1}`, `[]`, `null`, `"id"`, "",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, ok := readPlain([]byte(body))
		if !ok {
			return
		}
		var all fields
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		want, err := callOf(all)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	})
}

func TestACallAsLibrariesWriteItIsReadInTheShortWay(t *testing.T) {
	for _, body := range []string{`{"jsonrpc":"2.0","id":123456789012,"method":"abci_query","params":{"path":"/x"}}`, `{"id":"a","method":"status","params":[]}`} {
		if _, ok := readPlain([]byte(body)); !ok {
			t.Error(body)
		}
	}
}
