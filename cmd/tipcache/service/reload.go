package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/config"
)

// A reloader reads the configuration again while the service runs, and puts in
// force what can change: keys, limits, freshness, log level and admin token.
type reloader struct {
	*Service
	running config.Config // what is in force, as it was read: the dialect may have been found out since
	load    func() (config.Config, error)
	hangup  chan os.Signal

	success, at prometheus.Gauge // what came of reading it last
}

// ReloadWith has Run read the configuration again, by load, at every SIGHUP.
// running is the one that the service was made of. Until Run returns, no SIGHUP ends
// the process; one that comes while the service drains changes nothing. The metrics of
// what came of reading are there from now on.
func (s *Service) ReloadWith(running config.Config, load func() (config.Config, error)) {
	f := promauto.With(s.registry)
	s.reloader = &reloader{
		Service: s, running: running, load: load, hangup: make(chan os.Signal, 1),
		success: f.NewGauge(prometheus.GaugeOpts{
			Name: "tipcache_config_last_reload_success", Help: "1 if the last configuration that was read is in force, 0 if it was rejected.",
		}),
		at: f.NewGauge(prometheus.GaugeOpts{
			Name: "tipcache_config_last_reload_success_timestamp_seconds", Help: "Unix time at which the configuration in force was read.",
		}),
	}
	s.reloader.succeeded()
	signal.Notify(s.reloader.hangup, syscall.SIGHUP)
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

// reload takes a configuration as a whole or, if anything is wrong with it, not
// at all.
func (r *reloader) reload() {
	r.force.Lock()
	defer r.force.Unlock()
	next, err := r.load()
	if err != nil {
		r.refused("configuration refused, the one before stays in force", err, nil)
		return
	}
	merged := r.running
	changed, restart := merged.Reload(next)
	spoken := r.inDialect(merged)
	if err := errors.Join(merged.Validate(), spoken.CheckRoutes()); err != nil {
		r.refused("configuration refused without a restart, the one before stays in force", err, restart)
		return
	}
	if err := r.apply(spoken); err != nil {
		r.refused("configuration refused, the one before stays in force", err, nil)
		return
	}
	r.running = merged
	r.succeeded()
	level := slog.LevelInfo
	if len(restart) > 0 {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "configuration reloaded", "changed", changed, "needs_restart", restart)
}

// refused logs what is wrong, one record for each problem.
func (r *reloader) refused(message string, err error, restart []string) {
	r.success.Set(0)
	for _, problem := range config.Problems(err) {
		args := []any{"error", problem.Error()}
		if len(restart) > 0 {
			args = append(args, "needs_restart", restart)
		}
		r.log.Error(message, args...)
	}
}

// apply puts a valid configuration in force.
func (r *reloader) apply(cfg config.Config) error {
	if err := r.proxy.SetClasses(cfg.Policies(), cfg.OwnPolicies()); err != nil {
		return err // before anything changed
	}
	r.proxy.SetKeys(cfg.ClientKeys())
	r.proxy.SetLimits(cfg.Limits())
	r.adminPages.SetToken(cfg.AdminToken)
	r.logs.SetLevel(cfg.Log)
	return nil
}
