package blocks_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestTransactionsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := blocks.NewPosting(blocks.Posts{Rate: 0.8, Burst: 3})
		began := time.Now()
		for i := range 3 {
			if err := p.Acquire(t.Context(), "one"); err != nil || time.Since(began) > 0 {
				t.Fatalf("transaction %d of the burst: error %v after %v, want none at once", i, err, time.Since(began))
			}
		}
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() { ended <- p.Acquire(t.Context(), "one") }()
			synctest.Wait()
		}
		f := new(failure.Failure)
		if err := <-ended; !errors.As(err, &f) || f.Status != http.StatusTooManyRequests || f.RetryAfter != time.Second || time.Since(began) > 0 {
			t.Errorf("transaction that would wait 2.5 s: error %v after %v, want 429 at once", err, time.Since(began))
		}
		if err, want := <-ended, 1250*time.Millisecond; err != nil || time.Since(began) != want {
			t.Errorf("second transaction: error %v after %v, want none after %v", err, time.Since(began), want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Acquire(ctx, "two"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error after the client left = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestPostsDefaults(t *testing.T) {
	expect.Equal(t, blocks.Posts{}.WithDefaults(), blocks.Posts{Rate: 50, Burst: 100, MaxBody: 4 << 20}, "defaults")
	set := blocks.Posts{Rate: 1, Burst: 2, MaxBody: 3}
	expect.Equal(t, set.WithDefaults(), set, "settings")
}
