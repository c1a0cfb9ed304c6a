package evm

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

type answerFunc func(*http.Request) (*http.Response, error)

func (f answerFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newTestPool returns a pool with one endpoint that answers each call with 1, the chain's id.
func newTestPool(t *testing.T, o Options) *Pool {
	t.Helper()
	o.Endpoints, o.ChainID = []string{"http://node"}, 1
	p := expect.Value(NewPool(o))(t)
	p.endpoints[0].http = &http.Client{Transport: answerFunc(func(*http.Request) (*http.Response, error) {
		body := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":0,"result":"0x1"}`))
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})}
	return p
}

func TestConcurrentFailuresCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause, workers = time.Second, 8
		p := newTestPool(t, Options{Pause: pause})
		var work sync.WaitGroup
		for i := range workers {
			work.Go(func() {
				var failed time.Time
				err := p.Try(t.Context(), func(*Session) error {
					if failed.IsZero() {
						time.Sleep(time.Duration(i+1) * 10 * pause) // the pauses do not overlap
						failed = time.Now()
						return &Failure{Reason: Limited, err: errors.New("too often")}
					}
					if paused := time.Since(failed); paused > pause {
						t.Errorf("pause after failure %d of %d = %v, want at most %v", i+1, workers, paused, pause)
					}
					time.Sleep(20 * workers * pause) // no work succeeds before all have failed
					return nil
				})
				if err != nil {
					t.Errorf("Try = %v, want nil", err)
				}
			})
		}
		work.Wait()
		expect.Equal(t, p.endpoints[0].snapshot().batch.size, maxBatch, "calls at once afterwards")
	})
}

func TestRefusedBatchesShrink(t *testing.T) {
	for _, reason := range []Reason{Refused, Limited, Silent} {
		e := newTestPool(t, Options{}).endpoints[0]
		calls := 20 // fewer than the maximum
		for calls > 7 {
			e.recordCalls(calls, &Failure{Reason: reason, err: errors.New("too many")})
			next := min(calls, int(e.snapshot().batch.size))
			if next >= calls {
				t.Fatalf("calls after %d failed (%v) = %d, want fewer", calls, reason, next)
			}
			calls = next
		}
	}
}
