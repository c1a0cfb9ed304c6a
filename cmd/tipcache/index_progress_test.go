package main

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestTimeLeftFollowsFromTheBlocksDone(t *testing.T) {
	for name, tt := range map[string]struct {
		first int64
		at    ledger.Cursor
		want  time.Duration
	}{
		"from a block":   {100, ledger.Cursor{Chain: 1, Block: 199}, 10 * time.Second},
		"from block 0":   {0, ledger.Cursor{Chain: 1, Block: 149}, 10 * time.Second},
		"before a block": {0, ledger.Cursor{}, 0},
		"at the head":    {0, ledger.Cursor{Chain: 1, Block: 299}, 0},
	} {
		s := indexer.Status{First: tt.first, Cursor: tt.at, Head: 299}
		expect.Equal(t, timeLeft(s, 10*time.Second), tt.want, "time left, %s", name)
	}
}
