package service

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/config"
)

// A reloader reloads the configuration while the service runs, and applies what can change: nodes, keys,
// limits, freshness, log level and admin token.
type reloader struct {
	*Service
	load   func() (config.Config, error)
	hangup <-chan os.Signal

	success, at prometheus.Gauge // of the last reload
}

// ReloadWith makes Run reload the configuration by load at every signal from hangup. A signal changes nothing while the
// service drains.
func (s *Service) ReloadWith(load func() (config.Config, error), hangup <-chan os.Signal) {
	f := promauto.With(s.registry)
	s.reloader = &reloader{
		Service: s, load: load, hangup: hangup,
		success: f.NewGauge(prometheus.GaugeOpts{
			Name: "tipcache_config_last_reload_success", Help: "1 if the last loaded configuration is in force, 0 if it was rejected.",
		}),
		at: f.NewGauge(prometheus.GaugeOpts{
			Name: "tipcache_config_last_reload_success_timestamp_seconds", Help: "Unix time at which the configuration in force was loaded.",
		}),
	}
	s.reloader.succeeded()
}

func (r *reloader) succeeded() {
	r.success.Set(1)
	r.at.SetToCurrentTime()
}

// run reloads at every signal until ctx ends.
func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-r.hangup:
			r.reload()
		case <-ctx.Done():
			return
		}
	}
}

// reload applies a configuration completely or, if it has problems, not at all.
func (r *reloader) reload() {
	r.configMu.Lock()
	defer r.configMu.Unlock()
	next, err := r.load()
	if err != nil {
		r.reject("rejected configuration, keeping the current one", err, nil)
		return
	}
	merged := r.running
	changed, restart := merged.Reload(next)
	detected := r.inDialect(merged)
	if err := errors.Join(merged.Validate(), detected.CheckRoutes()); err != nil {
		r.reject("rejected configuration without a restart, keeping the current one", err, restart)
		return
	}
	if err := r.apply(detected); err != nil {
		r.reject("rejected configuration, keeping the current one", err, nil)
		return
	}
	r.running = merged
	r.succeeded()
	level := slog.LevelInfo
	if len(restart) > 0 {
		level = slog.LevelWarn
	}
	logWarnings(r.log, next)
	r.log.Log(context.Background(), level, "configuration reloaded", "changed", changed, "needs_restart", restart)
}

// logWarnings logs the settings that probably do not have the intended effect.
func logWarnings(log *slog.Logger, cfg config.Config) {
	for _, warning := range cfg.Warnings {
		log.Warn("configuration warning", "warning", warning.Error())
	}
}

func (r *reloader) reject(message string, err error, restart []string) {
	r.success.Set(0)
	for _, problem := range config.Problems(err) {
		args := []any{"error", problem.Error()}
		if len(restart) > 0 {
			args = append(args, "needs_restart", restart)
		}
		r.log.Error(message, args...)
	}
}

var errInterfaces = config.Problem{Key: "chain.nodes", Text: "these nodes have REST, CometBFT or gRPC addresses where the current ones have none, or the reverse: this needs a restart"}

// interfaces returns which APIs the nodes have: REST, RPC, gRPC. The served APIs depend on it.
func (*reloader) interfaces(cfg config.Config) (has [3]bool) {
	for _, e := range cfg.NodeOptions().Endpoints {
		has[0], has[1], has[2] = true, has[1] || e.Comet != "", has[2] || e.GRPC != ""
	}
	return has
}

func (r *reloader) apply(cfg config.Config) error {
	if r.interfaces(cfg) != r.interfaces(r.running) {
		return errInterfaces
	}
	if err := r.pool.SetEndpoints(cfg.NodeOptions().Endpoints); err != nil {
		return err // nothing has changed
	}
	if err := r.proxy.SetClasses(cfg.Policies(), cfg.OwnPolicies()); err != nil {
		return err // unlikely: the routes were checked
	}
	r.proxy.SetKeys(cfg.ClientKeys())
	r.proxy.SetLimits(cfg.Limits())
	r.adminPages.SetToken(cfg.AdminToken)
	r.logs.SetLevel(cfg.Log)
	return nil
}
