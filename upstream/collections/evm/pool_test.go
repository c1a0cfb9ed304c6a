package evm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/expect"
)

var otherChain = &Failure{Reason: OtherChain, err: ErrOtherChain}

func TestEndpointIsExcludedAfterRepeatedFailures(t *testing.T) {
	for name, f := range map[string]*Failure{"another chain": otherChain, "no access": {Reason: Forbidden, err: errors.New("no")}} {
		synctest.Test(t, func(t *testing.T) {
			p, failures := newTestPool(t, Options{}), 0
			work := func(most int) func(*Session) error {
				return func(*Session) error {
					if failures++; failures <= most {
						return f
					}
					return nil
				}
			}
			if err := p.Try(t.Context(), work(maxExcluded-1)); err != nil {
				t.Errorf("%s: Try after %d failures = %v, want nil", name, maxExcluded-1, err)
			}
			failures = 0
			expect.ErrorIs(t, p.Try(t.Context(), work(1000)), ErrForbidden, "%s: Try", name)
			expect.Equal(t, failures, maxExcluded, "%s: failures", name)
		})
	}
}

func TestRequestFallsBackToAnotherEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, Options{})
		only := p.endpoints[0]
		failures := 0
		used := func() (e *Endpoint) {
			expect.NoError(t, p.TryOther(t.Context(), only, 10*time.Second, func(s *Session) error {
				if e = s.Endpoint; e != only && failures > 0 {
					failures--
					return Lag("behind")
				}
				return nil
			}))
			return e
		}
		expect.Equal(t, used(), only, "endpoint of a pool of one")
		o := p.o
		other := expect.Value(newEndpoint("http://other", &o))(t)
		other.http = only.http
		p.endpoints = append(p.endpoints, other)
		expect.Equal(t, used(), other, "endpoint of a pool of two")
		failures = 1
		expect.Equal(t, used(), other, "endpoint if the other one fails once")
		began := time.Now()
		failures = math.MaxInt
		expect.Equal(t, used(), only, "endpoint if the other one keeps failing")
		expect.Equal(t, time.Since(began), 10*time.Second, "wait for the other endpoint")
		failures, other.failing, other.until = 0, time.Time{}, time.Now().Add(time.Minute)
		began = time.Now()
		expect.Equal(t, used(), only, "endpoint if the other one pauses for other work")
		expect.Equal(t, time.Since(began), 10*time.Second, "wait for the pausing endpoint")
	})
}

func TestHangingEndpointDelaysAPollBySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, Options{Timeout: time.Hour})
		p.endpoints = append(p.endpoints, newTestPool(t, Options{}).endpoints...)
		hanging := p.endpoints[0]
		hanging.http.Transport = answerFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		for _, verified := range []time.Time{{}, time.Now()} { // the chain id or the head is requested
			hanging.until, hanging.verified = time.Time{}, verified
			p.current.Store(0)
			began := time.Now()
			expect.NoError(t, p.Try(t.Context(), func(s *Session) error {
				_, _, err := s.Poll(t.Context(), 1)
				return err
			}))
			expect.Equal(t, time.Since(began), pollTimeout, "duration of a poll while an endpoint hangs")
		}
	})
}

func TestTroubleReportsLongOutageOfAllEndpoints(t *testing.T) {
	silence := &Failure{Reason: Silent, err: errors.New("refused")}
	forbidden := &Failure{Reason: Forbidden, err: errors.New("401")}
	for _, test := range []struct {
		name string
		last [2]*Failure // of the endpoints
		want error
	}{
		{"both are silent", [2]*Failure{silence, silence}, ErrUnreachable},
		{"one wants a key", [2]*Failure{silence, forbidden}, ErrForbidden},
		{"one serves another chain", [2]*Failure{otherChain, forbidden}, ErrOtherChain},
		{"one answers", [2]*Failure{otherChain, nil}, nil},
		{"one lags", [2]*Failure{silence, Lag("behind")}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newTestPool(t, Options{})
			p.endpoints = append(p.endpoints, newTestPool(t, Options{}).endpoints...)
			for i, f := range test.last {
				p.endpoints[i].failed(silence, time.Now(), &p.o)
				if f == nil {
					p.endpoints[i].RecordSuccess()
				} else {
					p.endpoints[i].failed(f, time.Now(), &p.o)
				}
			}
			time.Sleep(9 * time.Second)
			if err := p.Trouble(10 * time.Second); err != nil {
				t.Errorf("%s: Trouble after 9 s = %v, want nil", test.name, err)
			}
			time.Sleep(time.Second)
			expect.ErrorIs(t, p.Trouble(10*time.Second), test.want, "%s: Trouble after 10 s", test.name)
		})
	}
}

func TestEndpointBelowRequestedBlockLags(t *testing.T) {
	p := newTestPool(t, Options{}) // its head is block 1
	for block, lags := range map[int64]bool{0: false, 1: false, 2: true} {
		err := p.TryOne(p.endpoints[0], func(s *Session) error {
			head, _, err := s.AtHead(t.Context(), block)
			if err == nil && head < block {
				t.Errorf("head = %d, want at least %d", head, block)
			}
			return err
		})
		f, failed := errors.AsType[*Failure](err)
		if failed != lags || failed && f.Reason != Lagging {
			t.Errorf("error for block %d = %v, want lagging %t", block, err, lags)
		}
	}
}

func TestEndpointThatRefusesBatchesIsSingle(t *testing.T) {
	e := newTestPool(t, Options{}).endpoints[0]
	for tries := 0; e.snapshot().batch.size > 1; tries++ {
		if e.Single() || tries > 20 {
			t.Fatalf("Single = %t with %d calls at once after %d refusals, want false", e.Single(), e.snapshot().batch.size, tries)
		}
		e.fewerCalls()
	}
	if !e.Single() {
		t.Error("Single = false with one call at once, want true")
	}
}

func TestOneCallIsSentWithoutBatch(t *testing.T) {
	head := `{"jsonrpc":"2.0","id":0,"method":"eth_blockNumber","params":[]}`
	for want, calls := range map[string][]Call{
		head: nil,
		`[` + head + `,{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["x",2]}]`: {{Method: "eth_call", Params: []any{"x", 2}}},
	} {
		p, first := newTestPool(t, Options{}), ""
		e := p.endpoints[0]
		serve := e.http.Transport
		e.http.Transport = answerFunc(func(r *http.Request) (*http.Response, error) {
			first = cmp.Or(first, string(expect.Value(io.ReadAll(r.Body))(t)))
			if got := r.Header.Get("Content-Type"); r.Method != http.MethodPost || got != "application/json" {
				t.Errorf("%s with Content-Type %q, want POST with application/json", r.Method, got)
			}
			return serve.RoundTrip(r)
		})
		_ = p.TryOne(e, func(s *Session) error { // fails for two calls, because the answer is not a batch
			_, _, err := s.AtHead(t.Context(), 1, calls...)
			return err
		})
		expect.Equal(t, first, want, "first request body")
	}
}

func TestChainIDIsVerifiedOnceBeforeWork(t *testing.T) {
	for id, want := range map[string]error{`"0x1"`: nil, `"0x2"`: ErrOtherChain, `"x"`: ErrUnreachable, `{}`: ErrUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			p, requests, works := newTestPool(t, Options{}), 0, 0
			p.endpoints[0].http.Transport = answerFunc(func(*http.Request) (*http.Response, error) {
				requests++
				body := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":0,"result":` + id + `}`))
				return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 2 {
				err := p.Try(ctx, func(*Session) error { works++; return nil })
				if (err == nil) != (want == nil) || errors.Is(want, ErrOtherChain) && !(errors.Is(err, ErrForbidden) && errors.Is(err, ErrOtherChain)) {
					t.Errorf("Try with chain id %s = %v, want %v", id, err, want)
				}
			}
			expect.ErrorIs(t, p.Trouble(0), want, "Trouble with chain id %s", id)
			if (works == 2) != (want == nil) || want == nil && requests != 1 {
				t.Errorf("chain id %s: work called %d times, after %d requests, want 2 and 1 for the right id and 0 otherwise", id, works, requests)
			}
		})
	}
}

func TestNextEndpointTakesOverFromOneThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, Options{Pause: time.Minute})
		p.endpoints = append(p.endpoints, newTestPool(t, Options{}).endpoints...)
		var used []*Endpoint
		work := func(s *Session) error {
			if used = append(used, s.Endpoint); s.Endpoint == p.endpoints[0] {
				return Refusal("no")
			}
			return nil
		}
		for range 2 {
			expect.NoError(t, p.Try(t.Context(), work))
			time.Sleep(time.Hour) // the first one no longer pauses
		}
		if want := []*Endpoint{p.endpoints[0], p.endpoints[1], p.endpoints[1]}; !slices.Equal(used, want) {
			t.Errorf("endpoints used = %v, want %v", used, want)
		}
	})
}

func TestSingleEndpointIsAskedForHeadFirst(t *testing.T) {
	p := newTestPool(t, Options{})
	e := p.endpoints[0]
	for !e.Single() {
		e.fewerCalls()
	}
	serve, methods := e.http.Transport, []string{}
	e.http.Transport = answerFunc(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		methods = append(methods, gjson.GetBytes(body, "0.method").String()+gjson.GetBytes(body, "method").String())
		return serve.RoundTrip(r)
	})
	err := p.TryOne(e, func(s *Session) error {
		head, answers, err := s.AtHead(t.Context(), 1, Call{Method: "a"}, Call{Method: "b"})
		if head != 1 || len(answers) != 2 || !s.HeadMayDiffer {
			t.Errorf("AtHead = %d with %d answers, HeadMayDiffer %t, want 1 with 2, true", head, len(answers), s.HeadMayDiffer)
		}
		return err
	})
	if want := []string{"eth_blockNumber", "a", "b"}; err != nil || !slices.Equal(methods[max(0, len(methods)-3):], want) {
		t.Errorf("requests = %v, %v, want %v", methods, err, want)
	}
}

func TestMalformedEndpointURLIsRefused(t *testing.T) {
	if p, err := NewPool(Options{Endpoints: []string{"http://127.0.0.1:1", "no url"}, ChainID: 1}); err == nil || p != nil {
		t.Errorf("NewPool = %v, %v, want an error", p, err)
	}
}

func TestSessionKeepsOnlyFinalAnswers(t *testing.T) {
	const (
		null     = `"result":null`
		result   = `"result":"0x2"`
		revert   = `"error":{"code":3,"message":"execution reverted"}`
		internal = `"error":{"code":-32603,"message":"internal error"}`
	)
	for first, kept := range map[string]bool{null: false, internal: false, result: true, revert: true} {
		e := newTestPool(t, Options{}).endpoints[0]
		answer := first
		e.http.Transport = answerFunc(func(*http.Request) (*http.Response, error) {
			body := `[{"jsonrpc":"2.0","id":0,"result":"0x1"},{"jsonrpc":"2.0","id":1,` + answer + `}]`
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
		})
		s := newSession(e)
		_, _, _ = s.AtHeadOnce(t.Context(), 1, Call{Method: "a"}) // fails for an internal error
		answer = `"result":"0x3"`
		_, answers, err := s.AtHeadOnce(t.Context(), 1, Call{Method: "a"})
		expect.NoError(t, err)
		if changed := answers[0].Result.Str == "0x3"; changed == kept {
			t.Errorf("second answer after %s = %v, kept %t, want %t", first, answers[0], !changed, kept)
		}
	}
}
