package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// drain ends the streams, waits http.drain_delay so that load balancers notice, and then finishes requests in flight. The
// admin listener closes last, so that /readyz answers 503 until the end. If requests were cut off, it closes at once.
func (s *Service) drain(public *http.Server) error {
	s.stopping.Store(true)
	s.readiness.state.Drain() // at once: the check below may wait for an upstream
	s.proxy.Drain()
	notifySystemd(daemon.SdNotifyStopping)
	s.check(context.Background())
	if s.lane != nil {
		s.lane.Drain()
	}
	s.log.Info("draining", "delay", s.cfg.HTTP.DrainDelay.String(), "deadline", s.cfg.HTTP.Drain.String())
	time.Sleep(s.cfg.HTTP.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.HTTP.Drain)
	defer cancel()
	start := time.Now()
	calls, sockets := begin(ctx, s.drainGRPC), begin(ctx, s.drainRPC) // no API waits for another's slow requests
	err := errors.Join(s.shutdown(ctx, public), <-sockets)
	if s.lane != nil && err == nil {
		err = s.lane.Wait(ctx)
	}
	if err != nil {
		err = fmt.Errorf("requests cut off after %v: %w", s.cfg.HTTP.Drain, errors.Join(err, public.Close()))
	}
	err = errors.Join(err, <-calls)
	s.settleLimits()
	err = errors.Join(err, s.adminServer.Shutdown(ctx), s.pool.Close())
	s.log.Info("drained", "took", time.Since(start).Round(time.Millisecond).String())
	return err
}

// settleTimeout is how long the end of a drain waits for Redis. The documented time to kill the process allows for it.
const settleTimeout = time.Second

// settleLimits charges Redis for the requests that this replica has admitted, so that clients do not get them again from others.
func (s *Service) settleLimits() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	s.proxy.Settle(ctx)
}

// begin calls f on a goroutine. The returned channel receives its error.
func begin(ctx context.Context, f func(context.Context) error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return ended
}

// shutdown finishes the requests of a server. Responses of the fast lane may still be in flight after it.
func (s *Service) shutdown(ctx context.Context, server *http.Server) error {
	if s.lane != nil {
		s.lane.CloseNew()
	}
	return server.Shutdown(ctx)
}
