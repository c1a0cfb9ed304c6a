package cache

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEntriesAreEvictedForReservations(t *testing.T) {
	const bound = 4 << 20
	c := expect.Value(New(Options{MemoryBytes: bound}))(t)
	defer c.Close()
	fill := func() (weight int) {
		memory := c.space.Load().memory.(*otterMemory) //nolint:forcetypeassert // there is no other implementation
		for n := range 2 * bound >> 14 {
			memory.put(&Query{Key: fmt.Sprint(n)}, &Entry{Content: NewContent(http.StatusOK, "", "", make([]byte, 1<<14), 0), Height: 1, ReadAt: time.Now()})
		}
		memory.CleanUp()
		return int(memory.WeightedSize())
	}
	if got := fill(); got < bound*3/4 {
		t.Fatalf("weight of the entries = %d bytes, want at least %d: the test requires a full memory", got, bound*3/4)
	}
	if !c.Account().Reserve(account.Upstream, bound/2) {
		t.Fatal("Reserve of half of the bound failed")
	}
	if c.Account().Reserve(account.Upstream, 1) {
		t.Error("Reserve of more than half of the bound succeeded")
	}
	if got := fill(); got > bound/2 {
		t.Errorf("weight of the entries with half of memory reserved = %d bytes, want at most %d", got, bound/2)
	}
	c.SetNamespace("another")
	if got := fill(); got > bound/2 {
		t.Errorf("weight of another chain's entries = %d bytes, want at most %d", got, bound/2)
	}
	c.Account().Release(account.Upstream, bound/2)
	if got := fill(); got < bound*3/4 {
		t.Errorf("weight of the entries after the release = %d bytes, want at least %d", got, bound*3/4)
	}
}
