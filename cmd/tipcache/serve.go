package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cache/heap"
)

func serveCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "answer both interfaces from a node, a collection store and a metadata provider", Args: operands,
	}
	settings := addSettingFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error { return serve(c.Context(), settings, std) }
	return c
}

func serve(ctx context.Context, settings *settingFlags, std streams) error {
	cfg, err := settings.load()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(levelOf(cfg.Log))
	log := newLogs(std.err, cfg.Log, level)
	heap.Limit(log.Logger, memlimit.FromCgroup)
	heap.TuneGC(heap.GarbageFor(memlimit.FromCgroup))
	s, err := newService(ctx, cfg, log)
	if err != nil {
		return err
	}
	return runReloading(ctx, &reloader{service: s, load: settings.load, level: level, running: cfg})
}

// runReloading serves until ctx ends. SIGHUP reloads.
func runReloading(ctx context.Context, r *reloader) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ctx, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() { r.run(ctx, hangup) })
	err := r.service.run(ctx)
	stop()
	reloading.Wait()
	return err
}
