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

// Errors of Try for which trying again does not help, and of Trouble.
var (
	ErrOtherChain  = errors.New("another chain")
	ErrForbidden   = errors.New("no endpoint lets us ask")
	ErrUnreachable = errors.New("no endpoint answers")
)

// Options configure a Pool. Endpoints and ChainID are required.
type Options struct {
	Endpoints []string // http:// or https:// URLs of execution clients of one chain, the preferred one first
	ChainID   int64    // theirs

	Window   int64             // most blocks asked for in one call; 0 is 10,000
	Parallel int               // requests under way at once, as far as known; 0 is 4
	Timeout  time.Duration     // of one request; 0 is 30 s
	MaxBody  int64             // largest answer read, in bytes; 0 is 64 MiB
	Memory   *account.Part     // answers are read within it; nil means no limit
	Pause    time.Duration     // before an endpoint that failed is asked again, at first; 0 is 500 ms
	Patient  bool              // ask again for ever, whatever the reason; otherwise Try ends where that does not help
	Observe  func(what string) // called with how each piece of work went: "ok", or a Reason; nil: not called
	Logger   *slog.Logger      // nil discards

	client *http.Client
}

// WithDefaults fills in what was left zero.
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

// A Pool asks one endpoint, and the next when that fails. It is safe for concurrent use.
type Pool struct {
	o         Options
	endpoints []*Endpoint
	current   atomic.Int64 // counts on; modulo the endpoints it is the one to ask
}

// NewPool sends no request yet. No error of it repeats an endpoint's URL.
func NewPool(o Options) (*Pool, error) {
	if len(o.Endpoints) == 0 || o.ChainID <= 0 {
		return nil, errors.New("endpoints and a chain id are required")
	}
	o = o.WithDefaults()
	o.client = upstream.NewClient(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: o.Parallel + 1,
		IdleConnTimeout:     time.Minute,
	}, nil)
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

// Close gives up idle connections.
func (p *Pool) Close() { p.o.client.CloseIdleConnections() }

// Len is how many endpoints there are.
func (p *Pool) Len() int { return len(p.endpoints) }

// Window is how many blocks to ask the next endpoint for at once, and in each call.
func (p *Pool) Window() (blocks, perCall int64) { return p.at(p.current.Load()).Window() }

// Try lets the work be done with one endpoint after the other until it succeeds. Other errors than
// a *Failure end it, as does ctx, and for a Pool that is not patient ErrForbidden and
// ErrOtherChain.
func (p *Pool) Try(ctx context.Context, work func(*Session) error) error {
	return p.TryOther(ctx, nil, work)
}

// TryOther is Try with another endpoint than one, where another is to be had at present.
func (p *Pool) TryOther(ctx context.Context, than *Endpoint, work func(*Session) error) error {
	sessions := map[*Endpoint]*Session{}
	for {
		e, err := p.pick(ctx, than)
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
		if !ok {
			if err == nil {
				e.Well()
				p.o.Observe("ok")
			}
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.failed(e, f, began)
	}
}

// Trouble is why no endpoint has given an answer for so long: ErrOtherChain, ErrForbidden or
// ErrUnreachable, the first of them that one has. It is nil while one answers.
func (p *Pool) Trouble(least time.Duration) error {
	failures := map[error]error{}
	for _, e := range p.believed() {
		f, since := e.troubled()
		if f == nil || time.Since(since) < least {
			return nil
		}
		why := ErrUnreachable
		switch f.Reason {
		case OtherChain:
			why = ErrOtherChain
		case Forbidden:
			why = ErrForbidden
		}
		failures[why] = fmt.Errorf("%w: %s: %w", why, e.name, f)
	}
	return cmp.Or(failures[ErrOtherChain], failures[ErrForbidden], failures[ErrUnreachable])
}

// pick returns the endpoint to ask, the one to avoid last, and waits while all that are believed rest.
func (p *Pool) pick(ctx context.Context, avoid *Endpoint) (*Endpoint, error) {
	for {
		first, believed := p.current.Load(), p.believed()
		var soonest time.Time
		var excluded error
		var avoided *Endpoint
		for i := range p.endpoints {
			e := p.at(first + int64(i))
			if !slices.Contains(believed, e) {
				continue
			}
			until, err := e.available()
			switch {
			case err != nil:
				excluded = err
			case !time.Now().Before(until) && e == avoid:
				avoided = e
			case !time.Now().Before(until):
				return e, nil
			case soonest.IsZero() || until.Before(soonest):
				soonest = until
			}
		}
		if avoided != nil {
			return avoided, nil
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

// verify makes sure that the endpoint is of the chain: on the first request, and
// again after it was silent, for what comes back may be another.
func (p *Pool) verify(ctx context.Context, e *Endpoint) error {
	if e.isVerified() {
		return nil
	}
	answers, err := e.each(ctx, min(e.timeout, pollTimeout), Call{Method: "eth_chainId"})
	if err != nil {
		return err
	}
	said, err := answers[0].Text()
	if err != nil {
		return err
	}
	id, err := Quantity(said)
	if err != nil {
		return Refusal("its chain id: %w", err)
	}
	if id != p.o.ChainID {
		return &Failure{Reason: OtherChain, err: fmt.Errorf("%w: its chain id is %d, the network's is %d", ErrOtherChain, id, p.o.ChainID)}
	}
	e.verify()
	return nil
}

// failed has another endpoint take over from one whose work, which began then, failed.
func (p *Pool) failed(e *Endpoint, f *Failure, began time.Time) {
	p.o.Observe(f.Reason.String())
	at := p.current.Load()
	tell := e.failed(f, began, &p.o)
	if p.at(at) == e {
		p.current.CompareAndSwap(at, at+1)
	}
	level := slog.LevelDebug
	if tell && f.Reason != Lagging && len(p.endpoints) > 1 { // else the outage says it
		level = slog.LevelWarn
	}
	p.o.Logger.Log(context.Background(), level, "execution client failed, asking the next one", "endpoint", e.name, "reason", f.Reason.String(), "error", f)
}

// Outages returns the outages of the endpoints.
func (p *Pool) Outages() (all upstream.Outages) {
	for _, e := range p.endpoints {
		all = append(all, e.outage)
	}
	return all
}
