package cache

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/account"
)

func TestEntriesAreEvictedForReservations(t *testing.T) {
	const bound = 4 << 20
	c, err := New(Options{MemoryBytes: bound})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	weighs := func() int {
		memory := c.chain.Load().memory
		for n := range 2 * bound >> 14 {
			memory.put(&Query{Key: fmt.Sprint(n)}, &Entry{Content: NewContent(http.StatusOK, "", "", make([]byte, 1<<14), 0), Height: 1, ReadAt: time.Now()})
		}
		memory.CleanUp()
		return int(memory.WeightedSize())
	}
	if weighs() < bound*3/4 {
		t.Fatal("memory is not full, which this test requires")
	}
	if !c.Account().Reserve(account.Upstream, bound/2) {
		t.Fatal("Reserve of half of the bound failed")
	}
	if c.Account().Reserve(account.Upstream, 1) {
		t.Error("Reserve of more than half of the bound succeeded")
	}
	if got := weighs(); got > bound/2 {
		t.Errorf("entries weigh %d bytes with half of memory reserved, want at most %d", got, bound/2)
	}
	c.SetNamespace("another")
	if got := weighs(); got > bound/2 {
		t.Errorf("entries of another chain weigh %d bytes, want at most %d", got, bound/2)
	}
	c.Account().Release(account.Upstream, bound/2)
	if got := weighs(); got < bound*3/4 {
		t.Errorf("entries weigh %d bytes after the release, want at least %d", got, bound*3/4)
	}
}
