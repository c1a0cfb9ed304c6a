// Package exchanges has what a real node of the Cosmos SDK answered, for the tests of what
// simulates such a node and of what stands before one.
package exchanges

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"testing"
)

// recorded has one a line. Long lists in the answers were cut.
//
//go:embed exchanges.jsonl
var recorded []byte

// An Exchange is one request and its answer.
type Exchange struct {
	Name                      string // its first word is the kind
	Method, Path, Query, Body string
	Headers                   [][2]string
	Status                    int
	Answer                    map[string]string // the headers
	Raw                       string            // the body
	Same                      string            // the name of an earlier one that has the same body
	Trimmed                   bool              // a list in the body was cut
}

// All is every exchange, with the bodies that several share filled in.
func All(t testing.TB) []Exchange {
	t.Helper()
	bodies := map[string]string{}
	var all []Exchange
	for line := range bytes.Lines(recorded) {
		var x Exchange
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		if x.Same != "" {
			x.Raw = bodies[x.Same]
		}
		bodies[x.Name] = x.Raw
		all = append(all, x)
	}
	return all
}
