package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
)

func serveCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "serve the chain's APIs from its nodes, and collections from a store", Args: operands,
	}
	settings := addSettingFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error { return serve(c.Context(), settings, std) }
	return c
}

// serve logs its errors in the log's format and returns a loggedError.
func serve(ctx context.Context, settings *settingFlags, std streams) error {
	cfg, err := settings.read()
	if err == nil {
		err = serveWith(ctx, cfg, settings, std)
	}
	if err == nil {
		return nil
	}
	log := parts.NewLogger(std.err, config.Log{Level: "error", Format: cfg.Log.Format})
	for _, problem := range config.Problems(err) {
		log.Error("serve ended with an error", "error", problem.Error())
	}
	return loggedError{err}
}

// A loggedError was logged already, so main does not print it.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

func serveWith(ctx context.Context, cfg config.Config, settings *settingFlags, std streams) error {
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may end before the process
	log := parts.NewLogs(std.err, cfg.Log)
	heap.Limit(log.Logger, memlimit.FromCgroup)
	heap.TuneGC(heap.GarbageFor(memlimit.FromCgroup, cfg.CacheMemory(memlimit.FromCgroup)))
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before New, which may wait for nodes: SIGHUP must not end the process
	defer signal.Stop(hangup)
	s, err := service.New(ctx, cfg, log, service.Reloading{Load: settings.readAgain, Hangup: hangup})
	switch {
	case errors.Is(err, context.Canceled): // it was told to end while it waited for a node
		return nil
	case err != nil:
		return err
	}
	return s.Run(ctx)
}
