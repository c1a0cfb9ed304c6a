package cache

import (
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A round reports a part of the hot keys to the shared store, and hotRounds rounds report each key once.
func TestHotKeysAreReportedInParts(t *testing.T) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	var n hotReports
	reports := map[string]int{}
	for round := range 2 * hotRounds {
		due := n.due(keys)
		if len(due) > hotStep {
			t.Fatalf("keys due in round %d = %d, want at most %d", round, len(due), hotStep)
		}
		if round == 0 {
			continue // as if the store did not reply: the keys stay due
		}
		n.add(due)
		for _, key := range due {
			reports[key.Key]++
			expect.Equal(t, key.Key, keys[key.Rank], "key reported with rank %d", key.Rank)
		}
	}
	for _, key := range keys {
		expect.Equal(t, reports[key], 2, "reports of %s in %d rounds", key, 2*hotRounds)
	}
	if n.due(keys[:10]); len(n.last) > 10 {
		t.Errorf("keys remembered = %d, want at most the 10 hot ones", len(n.last))
	}
}
