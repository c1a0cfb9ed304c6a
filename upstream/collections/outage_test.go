package collections_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A slowDriver never answers List, and counts calls of Ping, which take a while.
type slowDriver struct {
	collections.Ledger

	pings int
}

func (d *slowDriver) List(ctx context.Context, _ collections.Query) (collections.Page, error) {
	<-ctx.Done()
	return collections.Page{}, upstream.Silence(collections.OriginName, ctx.Err())
}

func (d *slowDriver) Ping(context.Context) error {
	d.pings++
	time.Sleep(100 * time.Millisecond)
	return nil
}

// Owners takes much longer than a page may take.
func (d *slowDriver) Owners(ctx context.Context, _ []ledger.Address, _ []ledger.Hash) (ledger.Owners, error) {
	return ledger.Owners{}, upstream.Sleep(ctx, 40*time.Second)
}

func TestOwnersMayTakeLongerThanPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := collections.New("slow", &slowDriver{}, collections.Options{})
		expect.Value(s.Owners(t.Context(), []ledger.Address{{1}}, nil))(t)
	})
}

func TestOneSlowQueryIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := collections.New("slow", &slowDriver{}, collections.Options{})
		_, err := s.List(t.Context(), collections.Query{})
		wantSilence(t, err, upstream.Timeout)
		expect.NoError(t, s.Outage().Cause())
		for range 2 {
			_, _ = s.List(t.Context(), collections.Query{})
		}
		if s.Outage().Cause() == nil {
			t.Error("Cause after three queries without an answer = nil, want the outage")
		}
	})
}

func TestCallsOfPingWithinASecondShareOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &slowDriver{}
		s := collections.New("slow", driver, collections.Options{})
		for second := range 3 {
			for range 20 {
				go func() { expect.NoError(t, s.Ping(t.Context())) }()
			}
			synctest.Wait()
			time.Sleep(1100 * time.Millisecond)
			expect.Equal(t, driver.pings, second+1, "checks of the store after %d s", second+1)
		}
	})
}
