package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// drain lets load balancers notice, then finishes what is in flight: first on the
// public listener, so that the admin listener answers to the end.
func (s *Service) drain(public, admin *http.Server) error {
	s.stopping.Store(true)
	s.proxy.Drain()
	notifySystemd(daemon.SdNotifyStopping)
	if s.lane != nil {
		s.lane.Drain()
	}
	s.log.Info("draining", "delay", s.cfg.HTTP.DrainDelay.String(), "deadline", s.cfg.HTTP.Drain.String())
	time.Sleep(s.cfg.HTTP.DrainDelay)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.HTTP.Drain)
	defer cancel()
	start := time.Now()
	calls, sockets := s.drainGRPC(ctx), s.drainRPC(ctx) // no interface waits for the slow requests of another
	err := errors.Join(s.shutdown(ctx, public), <-sockets)
	if s.lane != nil && err == nil {
		err = s.lane.Wait(ctx)
	}
	if err != nil {
		err = fmt.Errorf("requests cut off after %v: %w", s.cfg.HTTP.Drain, errors.Join(err, public.Close()))
	}
	err = errors.Join(err, <-calls, admin.Shutdown(ctx), s.pool.Close())
	s.log.Info("drained", "took", time.Since(start).Round(time.Millisecond).String())
	return err
}

// shutdown finishes what is in flight on a server. In the fast lane answers may be on their way after it.
func (s *Service) shutdown(ctx context.Context, server *http.Server) error {
	if s.lane != nil {
		s.lane.CloseNew()
	}
	return server.Shutdown(ctx)
}
