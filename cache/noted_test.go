package cache

import (
	"fmt"
	"testing"
)

// The shared store is told of a part of the hot keys at a time, and of each once in many rounds.
func TestHotKeysOfReplicasAreBounded(t *testing.T) {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	var n hotReports
	told := map[string]int{}
	for round := range 2 * hotRounds {
		due := n.due(keys)
		if len(due) > hotStep {
			t.Fatalf("%d keys in round %d, want at most %d", len(due), round, hotStep)
		}
		if round == 0 {
			continue // the store did not answer: they are due again
		}
		n.add(due)
		for _, key := range due {
			if told[key.Key]++; keys[key.Rank] != key.Key {
				t.Fatalf("rank %d reported for %s, want %s", key.Rank, key.Key, keys[key.Rank])
			}
		}
	}
	for _, key := range keys {
		if told[key] != 2 {
			t.Errorf("%s was reported %d times in %d rounds, want 2", key, told[key], 2*hotRounds)
		}
	}
	if n.due(keys[:10]); len(n.last) > 10 {
		t.Errorf("%d keys are remembered, want at most 10", len(n.last))
	}
}
