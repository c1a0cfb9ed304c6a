package node

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// A node that sends a response without end, or too slowly, fails every request. A request can also make honest nodes fail, so
// one failure shows nothing. One more node is asked: if it answers, the first one is to blame, and its breaker counts the
// failure. If both fail in the same way, the request is to blame, and is refused for a short time.

// A fault is how a node failed a request that may have caused it.
type fault int

const (
	noFault fault = iota
	slowResponse
	largeResponse
	overflow // the response did not fit into the memory that was free
)

func faultOf(err error) fault {
	_, overflowed := errors.AsType[*account.Overflow](err)
	switch {
	case errors.Is(err, errTooLarge):
		return largeResponse
	case overflowed:
		return overflow
	case upstream.KindOf(err) == upstream.Timeout:
		return slowResponse
	default:
		return noFault
	}
}

// blame decides what the failures of a fetch show, once its result is known.
func (f *fetch) blame(a *Answer, err error) error {
	switch alike := f.failAlike(); {
	case len(f.suspects) == 0:
	case err == nil && !a.isDoubtful():
		for _, s := range f.suspects {
			if o, ok := errors.AsType[*account.Overflow](s.err); !ok || o.Bytes > 2*int64(len(a.Body)) {
				s.endpoint.serverOf(f.request).blame(s.err)
			}
		}
	case len(f.done) == 1: // there is no other node
		if s := f.suspects[0]; faultOf(s.err) == slowResponse {
			s.endpoint.serverOf(f.request).blame(s.err)
		}
	case alike:
		failure, _ := errors.AsType[*upstream.Error](f.suspects[1].err) // a failure that is retried always is one
		provoked := *failure
		provoked.Provoked = true
		f.pool.refusals.add(f.request, &provoked)
		return &provoked
	}
	return err
}

// failAlike reports whether two nodes have failed in the same way.
func (f *fetch) failAlike() bool {
	return len(f.suspects) == maxFailed && faultOf(f.suspects[0].err) == faultOf(f.suspects[1].err)
}

// A blamed error counts in the breaker of a server.
type blamed struct{ error }

// Unwrap returns the failure for errors.Is and errors.As.
func (b blamed) Unwrap() error { return b.error }

// blame counts a failure that the breaker ignored when it happened, because the request may have caused it.
func (s *server) blame(err error) {
	s.failed.Store(time.Now().UnixNano())
	_, _ = s.breaker.Execute(func() (*Answer, error) { return nil, blamed{err} })
}

// blameTimeout blames the server for a timeout of a request of the pool's own.
func (s *server) blameTimeout(err error) {
	if upstream.KindOf(err) == upstream.Timeout && !s.counts(err) {
		s.blame(err)
	}
}

// counts reports whether the breaker counts an error. It ignores a timeout of a request that was sent until somebody is to blame
// for it.
func (s *server) counts(err error) bool {
	_, isBlamed := errors.AsType[blamed](err)
	return isBlamed || s.isFailure(err) && (upstream.KindOf(err) != upstream.Timeout || isDialError(err))
}

const (
	refusedFor  = 3 * time.Second // how long a request that two nodes failed is refused
	maxRefusals = 1000
)

// refusals are the errors of requests that two nodes have failed in the same way.
type refusals struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]refused
}

type refused struct {
	err   *upstream.Error
	until time.Time
}

// of returns the error of a request that is refused, or nil.
func (s *refusals) of(r Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	if known, ok := s.all[r.digest()]; ok && time.Now().Before(known.until) {
		return known.err
	}
	return nil
}

func (s *refusals) add(r Request, err *upstream.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= maxRefusals {
		s.all = map[[sha256.Size]byte]refused{}
	}
	s.all[r.digest()] = refused{err, time.Now().Add(refusedFor)}
}

// digest identifies what a request reads.
func (r Request) digest() [sha256.Size]byte {
	text := fmt.Appendf(nil, "%d %t %q %q %q", r.Height, r.Unpinned, r.Path, r.Query, r.PageKey)
	switch {
	case r.Call != nil:
		text = fmt.Appendf(text, "call %q %q %q", r.Call.Method, r.Call.Target, r.Call.Params(0))
	case r.Invoke != nil:
		text = fmt.Appendf(text, "invoke %q %q", r.Invoke.Method, r.Invoke.Message)
	case r.Post != nil:
		text = fmt.Appendf(text, "post %q", r.Post.Body)
	}
	return sha256.Sum256(text)
}
