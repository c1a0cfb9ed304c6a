package cosmos

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// An exchange is one request to a real node and its answer.
type exchange struct {
	Name, Method, Path, Query, Body string
	Headers                         [][2]string
	Status                          int
	Answer                          map[string]string
	Raw, Same                       string
}

// readExchanges reads the recordings that the simulated node is held against, too.
func readExchanges(t testing.TB) []exchange {
	t.Helper()
	file, err := os.Open("../../upstream/devnet/cosmos/testdata/exchanges.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bodies := map[string]string{}
	var all []exchange
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var x exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
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
