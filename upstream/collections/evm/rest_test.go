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

// newTestPool makes a pool of one endpoint that answers everything with its
// chain's id, 1.
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
						time.Sleep(time.Duration(i+1) * 10 * pause) // apart by more than a rest
						failed = time.Now()
						return &Failure{Reason: Limited, err: errors.New("too often")}
					}
					if rested := time.Since(failed); rested > pause {
						t.Errorf("after failure %d of %d the endpoint rests %v", i+1, workers, rested)
					}
					time.Sleep(20 * workers * pause) // none is well before all have failed
					return nil
				})
				if err != nil {
					t.Error(err)
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
		calls := 20 // of which fewer than a batch has room for were left
		for calls > 7 {
			e.recordCalls(calls, &Failure{Reason: reason, err: errors.New("too many")})
			if next := min(calls, int(e.snapshot().batch.size)); next >= calls {
				t.Fatalf("%v: %d calls again", reason, next)
			} else {
				calls = next
			}
		}
	}
}
