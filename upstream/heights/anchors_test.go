package heights

import (
	"fmt"
	"testing"
)

func TestTheHashesOfTheNewestBlocksAreRemembered(t *testing.T) {
	var a anchors
	for height := int64(1); height <= 3*rememberedHashes; height++ {
		a.note(height, fmt.Sprint("hash of ", height))
	}
	a.note(1, "too old")
	oldest := int64(2*rememberedHashes + 1)
	if len(a.hashes) != rememberedHashes || a.at(oldest) == "" || a.atOrBelow(oldest-1) != 0 {
		t.Errorf("%d hashes, want %d from block %d on", len(a.hashes), rememberedHashes, oldest)
	}
}
