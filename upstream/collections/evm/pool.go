package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// Errors of Try for which retrying does not help, and of Trouble.
var (
	ErrOtherChain  = errors.New("another chain")
	ErrForbidden   = errors.New("no endpoint can be used")
	ErrUnreachable = errors.New("no endpoint answers")
)

// Options configure a Pool. Endpoints and ChainID are required.
type Options struct {
	Endpoints []string // http:// or https:// URLs of execution clients of one chain, the preferred one first
	ChainID   int64    // chain id of the endpoints

	Window   int64               // maximum number of blocks in one call; 0 means 10,000
	Parallel int                 // expected number of concurrent requests; 0 means 4
	Timeout  time.Duration       // of one request; 0 means 30 s
	MaxBody  int64               // maximum size of a response in bytes; 0 means 64 MiB
	Memory   *account.Part       // budget of responses; nil means no limit
	Pause    time.Duration       // initial pause of an endpoint after a failure; 0 means 500 ms
	Patient  bool                // retry forever; otherwise Try ends if retrying does not help
	Observe  func(result string) // called with the result of each work, "ok" or a Reason; may be nil
	Logger   *slog.Logger        // nil discards logs

	client *http.Client
}

// WithDefaults replaces zero values by the defaults.
func (o Options) WithDefaults() Options {
	o.Window = cmp.Or(o.Window, 10_000)
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, 64<<20)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Observe == nil {
		o.Observe = func(string) {}
	}
	return o
}

// A Pool uses one endpoint, and the next one if it fails. It is safe for concurrent use.
type Pool struct {
	o         Options
	endpoints []*Endpoint
	current   atomic.Int64 // index of the preferred endpoint, modulo their number
}

// NewPool returns a pool. It sends no requests, and its errors do not contain URLs.
func NewPool(o Options) (*Pool, error) {
	if len(o.Endpoints) == 0 || o.ChainID <= 0 {
		return nil, errors.New("endpoints and a chain id are required")
	}
	o = o.WithDefaults()
	o.client = upstream.NewClient(upstream.NewTransport(o.Parallel+1), nil, nil)
	p := &Pool{o: o}
	for _, u := range o.Endpoints {
		e, err := newEndpoint(u, &o)
		if err != nil {
			return nil, err
		}
		p.endpoints = append(p.endpoints, e)
	}
	return p, nil
}

// Close closes idle connections.
func (p *Pool) Close() { p.o.client.CloseIdleConnections() }

// Len returns the number of endpoints.
func (p *Pool) Len() int { return len(p.endpoints) }

// Window returns the number of blocks per request and per call of the preferred endpoint.
func (p *Pool) Window() (blocks, perCall int64) { return p.at(p.current.Load()).Window() }

// Try calls work with one endpoint after the other until work succeeds, returns an error other than a *Failure, or ctx ends. A
// Pool that is not patient also fails with ErrForbidden or ErrOtherChain.
func (p *Pool) Try(ctx context.Context, work func(*Session) error) error {
	return p.TryOther(ctx, nil, 0, work)
}

// TryOther is Try with endpoints other than except. It uses except only if there is no other, or if all others pause and
// have been failing to be the other one for a grace time.
func (p *Pool) TryOther(ctx context.Context, except *Endpoint, grace time.Duration, work func(*Session) error) error {
	sessions := map[*Endpoint]*Session{}
	release := func() {
		for _, s := range sessions {
			s.held.Close()
		}
		clear(sessions)
	}
	defer release()
	for {
		e, err := p.pick(ctx, except, grace)
		if err != nil {
			return err
		}
		s := cmp.Or(sessions[e], newSession(e))
		sessions[e] = s
		began := time.Now()
		if err = p.verify(ctx, e); err == nil {
			err = s.try(work)
		}
		f, ok := errors.AsType[*Failure](err)
		if except != nil && e != except && grace > 0 {
			e.recordOther(began, ok, err)
		}
		if !ok {
			if err == nil {
				e.RecordSuccess()
				p.o.Observe("ok")
			}
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.failed(e, f, began)
		if errors.Is(f, account.ErrFull) {
			release()
		}
	}
}

// Trouble returns why no endpoint has answered for at least a time: ErrOtherChain, ErrForbidden or ErrUnreachable, in this
// order of preference. It returns nil if one has answered.
func (p *Pool) Trouble(least time.Duration) error {
	failures := map[error]error{}
	for _, e := range p.candidates() {
		s := e.snapshot()
		if s.trouble == nil || time.Since(s.since) < least {
			return nil
		}
		why := ErrUnreachable
		switch s.trouble.Reason {
		case OtherChain:
			why = ErrOtherChain
		case Forbidden:
			why = ErrForbidden
		}
		failures[why] = fmt.Errorf("%w: %s: %w", why, e.name, s.trouble)
	}
	return cmp.Or(failures[ErrOtherChain], failures[ErrForbidden], failures[ErrUnreachable])
}

// pick returns the next trusted endpoint that does not pause. It returns the one to avoid only if all others have been failing
// for a grace time, and waits while all of them pause.
func (p *Pool) pick(ctx context.Context, avoid *Endpoint, grace time.Duration) (*Endpoint, error) {
	began := time.Now()
	for {
		first, candidates, now := p.current.Load(), p.candidates(), time.Now()
		var soonest, hopeless time.Time // when the first endpoint stops pausing, and when all others have failed for too long
		var excluded error
		var avoided *Endpoint
		for i := range p.endpoints {
			e := p.at(first + int64(i))
			if !slices.Contains(candidates, e) {
				continue
			}
			s := e.snapshot()
			switch {
			case s.excluded != nil:
				excluded = s.excluded
				continue
			case !now.Before(s.until) && e == avoid:
				avoided = e
				continue
			case !now.Before(s.until):
				return e, nil
			case soonest.IsZero() || s.until.Before(soonest):
				soonest = s.until
			}
			if s.failing.IsZero() {
				s.failing = began // it pauses because of other work
			}
			if end := s.failing.Add(grace); end.After(hopeless) {
				hopeless = end
			}
		}
		if avoided != nil && !now.Before(hopeless) {
			return avoided, nil
		}
		if avoided != nil && hopeless.Before(soonest) {
			soonest = hopeless
		}
		if soonest.IsZero() {
			return nil, fmt.Errorf("%w: %w", ErrForbidden, excluded)
		}
		if err := upstream.Sleep(ctx, time.Until(soonest)); err != nil {
			return nil, err
		}
	}
}

func (p *Pool) at(i int64) *Endpoint { return p.endpoints[i%int64(len(p.endpoints))] }

// verify checks the endpoint's chain id before the first request, and again after it did not respond, because another server
// may have replaced it.
func (p *Pool) verify(ctx context.Context, e *Endpoint) error {
	if !e.snapshot().verified.IsZero() {
		return nil
	}
	answers, err := e.call(ctx, min(e.timeout, pollTimeout), Call{Method: "eth_chainId"})
	if err != nil {
		return err
	}
	text, err := answers[0].Text()
	if err != nil {
		return err
	}
	id, err := Quantity(text)
	if err != nil {
		return Refusal("its chain id: %w", err)
	}
	if id != p.o.ChainID {
		return &Failure{Reason: OtherChain, err: fmt.Errorf("%w: its chain id is %d, the network's is %d", ErrOtherChain, id, p.o.ChainID)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.verified, e.useful = time.Now(), false
	return nil
}

// failed records the failure of an endpoint's work, which began at began, and prefers another endpoint.
func (p *Pool) failed(e *Endpoint, f *Failure, began time.Time) {
	p.o.Observe(f.Reason.String())
	at := p.current.Load()
	log := e.failed(f, began, &p.o)
	if p.at(at) == e {
		p.current.CompareAndSwap(at, at+1)
	}
	level := slog.LevelDebug
	if log && f.Reason != Lagging && len(p.endpoints) > 1 { // otherwise the outage logs it
		level = slog.LevelWarn
	}
	p.o.Logger.Log(context.Background(), level, "execution client failed, using the next one", "endpoint", e.name, "reason", f.Reason.String(), "error", f)
}

// Outages returns the outages of the endpoints.
func (p *Pool) Outages() (all upstream.Outages) {
	for _, e := range p.endpoints {
		all = append(all, e.outage)
	}
	return all
}
