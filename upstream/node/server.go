package node

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

const (
	maxFailures = 5           // consecutive failures that open the breaker
	breakerOpen = time.Second // until the breaker lets a request through again
)

// A server is one of a node's servers: REST, RPC or gRPC. Each can fail independently.
type server struct {
	breaker   *gobreaker.CircuitBreaker[*Answer]
	isFailure func(error) bool // reports whether an error is a failure of the server itself
	outage    *upstream.Outage
	failed    atomic.Int64 // Unix time of the last such failure in nanoseconds; 0 after a success
}

func newServer(outage *upstream.Outage, isFailure func(error) bool) *server {
	s := &server{isFailure: isFailure, outage: outage}
	s.breaker = upstream.NewBreaker[*Answer](upstream.BreakerOptions{
		Outage:   outage,
		Failures: maxFailures, Cooldown: breakerOpen,
		Excluded: func(err error) bool { return !s.counts(err) },
	})
	return s
}

// maxExcerpt limits the bytes of a node's text in an outage.
const maxExcerpt = 200

// recordOutcome extends the outage after a failed request, and ends it after a successful one. A failure that the node
// reports (Other) counts like a missing response. An error caused by the request or by a lack of memory does not count.
func (s *server) recordOutcome(a *Answer, err error) {
	if err == nil {
		s.failed.Store(0)
	} else if s.isFailure(err) || errors.Is(err, errTipRefused) {
		s.failed.Store(time.Now().UnixNano())
	}
	switch {
	case err == nil && (a.Reason != Other || a.NodeWorks):
		s.outage.End()
	case err == nil:
		s.outage.Record(fmt.Errorf("status %d: %.*s", a.NodeStatus, maxExcerpt, a.Text))
	case upstream.KindOf(err) != 0 && !errors.Is(err, account.ErrFull):
		s.outage.Record(err)
	}
}

// failedLately reports whether the server ranks behind others because of a failure.
func (s *server) failedLately() bool { return time.Since(time.Unix(0, s.failed.Load())) < penaltyTime }

func (s *server) isOpen() bool { return s.breaker.State() == gobreaker.StateOpen }
