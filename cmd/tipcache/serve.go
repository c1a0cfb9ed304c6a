package main

import (
	"context"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
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
	log := parts.NewLogs(std.err, cfg.Log)
	heap.Limit(log.Logger, memlimit.FromCgroup)
	heap.TuneGC(heap.GarbageFor(memlimit.FromCgroup))
	s, err := service.New(ctx, cfg, log)
	if err != nil {
		return err
	}
	s.ReloadWith(cfg, settings.load)
	return s.Run(ctx)
}
