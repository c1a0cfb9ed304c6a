package service

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/config"
)

// reloadMetrics describe the last reload of the configuration: nodes, keys, limits, freshness, log level and admin token.
type reloadMetrics struct{ success, at prometheus.Gauge }

// measureReloads registers the metrics if the configuration can be reloaded.
func (s *Service) measureReloads() {
	if s.reloading.Load == nil {
		return
	}
	f := promauto.With(s.registry)
	s.reloads = reloadMetrics{
		success: f.NewGauge(prometheus.GaugeOpts{
			Name: "tipcache_config_last_reload_success", Help: "1 if the last loaded configuration is in force, 0 if it was rejected.",
		}),
		at: f.NewGauge(prometheus.GaugeOpts{
			Name: "tipcache_config_last_reload_success_timestamp_seconds", Help: "Unix time at which the configuration in force was loaded.",
		}),
	}
	s.reloads.succeeded()
}

func (r reloadMetrics) succeeded() {
	r.success.Set(1)
	r.at.SetToCurrentTime()
}

// reloadAtSignals reloads at every signal until ctx ends. A signal changes nothing while the service drains.
func (s *Service) reloadAtSignals(ctx context.Context) {
	for {
		select {
		case <-s.reloading.Hangup:
			s.reload()
		case <-ctx.Done():
			return
		}
	}
}

// reload applies a configuration completely or, if it has problems, not at all.
func (s *Service) reload() {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	next, err := s.reloading.Load()
	if err != nil {
		s.reject("rejected configuration, keeping the current one", err, nil)
		return
	}
	merged := s.running
	changed, restart := merged.Reload(next)
	detected := s.inDialect(merged)
	if err := errors.Join(merged.Validate(), detected.CheckRoutes()); err != nil {
		s.reject("rejected configuration without a restart, keeping the current one", err, restart)
		return
	}
	if err := s.apply(detected); err != nil {
		s.reject("rejected configuration, keeping the current one", err, nil)
		return
	}
	s.running = merged
	s.reloads.succeeded()
	level := slog.LevelInfo
	if len(restart) > 0 {
		level = slog.LevelWarn
	}
	logWarnings(s.log, next)
	s.log.Log(context.Background(), level, "configuration reloaded", "changed", changed, "needs_restart", restart)
}

// logWarnings logs the settings that probably do not have the intended effect.
func logWarnings(log *slog.Logger, cfg config.Config) {
	for _, warning := range cfg.Warnings {
		log.Warn("configuration warning", "warning", warning.Error())
	}
}

func (s *Service) reject(message string, err error, restart []string) {
	s.reloads.success.Set(0)
	for _, problem := range config.Problems(err) {
		args := []any{"error", problem.Error()}
		if len(restart) > 0 {
			args = append(args, "needs_restart", restart)
		}
		s.log.Error(message, args...)
	}
}

var errInterfaces = config.Problem{Key: "chain.nodes", Text: "these nodes have REST, CometBFT or gRPC addresses where the current ones have none, or the reverse: this needs a restart"}

// interfaces returns which APIs the nodes have: REST, RPC, gRPC. The served APIs depend on it.
func interfaces(cfg config.Config) (has [3]bool) {
	for _, e := range cfg.NodeOptions().Endpoints {
		has[0], has[1], has[2] = true, has[1] || e.Comet != "", has[2] || e.GRPC != ""
	}
	return has
}

// apply applies a configuration to the parts that exist. New builds the others with it.
func (s *Service) apply(cfg config.Config) error {
	if !s.started.Load() {
		s.cfg = cfg
	} else if err := s.applyToParts(cfg); err != nil {
		return err
	}
	s.adminPages.SetToken(cfg.AdminToken)
	s.logs.SetLevel(cfg.Log)
	return nil
}

func (s *Service) applyToParts(cfg config.Config) error {
	if interfaces(cfg) != interfaces(s.running) {
		return errInterfaces
	}
	if err := s.pool.SetEndpoints(cfg.NodeOptions().Endpoints); err != nil {
		return err // nothing has changed
	}
	if err := s.proxy.SetClasses(cfg.Classes, cfg.OwnPolicies()); err != nil {
		return err // unlikely: the routes were checked
	}
	s.proxy.SetKeys(cfg.ClientKeys())
	s.proxy.SetLimits(cfg.Limits())
	return nil
}

// inDialect returns a configuration with the dialect of the nodes.
func (s *Service) inDialect(cfg config.Config) config.Config {
	cfg.Chain.Dialect = s.cfg.Chain.Dialect
	return cfg
}
