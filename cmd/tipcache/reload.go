package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/tipcache/tipcache/config"
)

// A reloader reads the configuration again while the service runs, and puts in
// force what can change: keys, limits, freshness, log level and admin token.
type reloader struct {
	service *service
	load    func() (config.Config, error)
	level   *slog.LevelVar
	running config.Config // what is in force
}

// run reloads at every signal until ctx ends.
func (r *reloader) run(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-hangup:
			r.reload()
		case <-ctx.Done():
			return
		}
	}
}

// reload takes a configuration as a whole or, if anything is wrong with it, not
// at all.
func (r *reloader) reload() {
	log := r.service.log
	next, err := r.load()
	if err != nil {
		log.Error("configuration refused, the one before stays in force", "error", oneLine(err))
		return
	}
	merged := r.running
	changed, restart := merged.Reload(next)
	if err := errors.Join(merged.Validate(), validateRest(merged)); err != nil {
		log.Error("configuration refused without a restart, the one before stays in force", "error", oneLine(err), "needs_restart", restart)
		return
	}
	if err := r.apply(merged); err != nil {
		log.Error("configuration refused, the one before stays in force", "error", oneLine(err))
		return
	}
	r.running = merged
	log.Info("configuration reloaded", "changed", changed, "needs_restart", restart)
}

// apply puts a valid configuration in force.
func (r *reloader) apply(cfg config.Config) error {
	p := r.service.proxy
	if err := p.SetClasses(classes(cfg), ownPolicies(cfg)); err != nil {
		return err // before anything changed
	}
	p.SetKeys(apiKeys(cfg))
	p.SetLimits(limits(cfg))
	r.service.adminPages.SetToken(cfg.AdminToken)
	r.level.Set(levelOf(cfg.Log))
	return nil
}

// oneLine makes one line of a list of problems.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
