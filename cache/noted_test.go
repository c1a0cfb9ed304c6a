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
			t.Fatalf("%d keys in round %d", len(due), round)
		}
		if round == 0 {
			continue // the store did not answer: they are due again
		}
		n.add(due)
		for _, key := range due {
			if told[key.Key]++; keys[key.Rank] != key.Key {
				t.Fatalf("rank %d is told of %s", key.Rank, key.Key)
			}
		}
	}
	for _, key := range keys {
		if told[key] != 2 {
			t.Errorf("%s was told of %d times in %d rounds", key, told[key], 2*hotRounds-1)
		}
	}
	if n.due(keys[:10]); len(n.last) > 10 {
		t.Errorf("%d keys are remembered, of 10", len(n.last))
	}
}
