package indexer_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestWaitingIndexerReportsLeaderThatDoesNotIndex(t *testing.T) {
	t.Parallel()
	h := newHistory(11, 100)
	evm := serveEVM(t, h, faults{})
	store := openMemory(t)
	o := quick(store, evm)
	expect.NoError(t, index(t.Context(), o))
	x := expect.Value(indexer.New(o))(t)
	var watching sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer watching.Wait()
	defer stop()
	watching.Go(func() { x.WatchLeader(ctx) })
	evm.awaitRequests(t, 3)
	expect.Equal(t, x.Status().State(), "waiting", "state while the store is at the head")
	h.grow(20)
	eventually(t, "the state leader_stalled", func() bool {
		s := x.Status()
		return s.State() == "leader_stalled" && errors.Is(s.Err, indexer.ErrLeaderStalled)
	})
	expect.NoError(t, index(t.Context(), o))
	eventually(t, "the state waiting", func() bool { return x.Status().State() == "waiting" })
}
