package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

func indexCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "index", Short: "fill a store from the events of the chain's execution client, or continue an interrupted run", Args: operands,
	}
	settings := addFlagsOf(c.Flags(), func(k config.Key) bool {
		return k.Path == "collections.store" || strings.HasPrefix(k.Path, "index.") && k.Path != "index.enabled"
	})
	follow := c.Flags().Bool("follow", false, "continue with new blocks until interrupted")
	admin := c.Flags().String("admin", "none", "`address` of a listener for the status page, /healthz, /readyz and /metrics; the setting admin is for serve only")
	again := c.Flags().Bool("rebuild", false, "count everything again into a second store, then replace the first one; imported collections are lost")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return runIndex(c.Context(), settings, *admin, *follow, *again, std)
	}
	return c
}

func runIndex(ctx context.Context, settings *settingFlags, admin string, follow, again bool, std streams) error {
	settings.values["index"] = []string{"true"}
	cfg, err := settings.loadForStore()
	if err != nil {
		return err
	}
	log := parts.NewLogger(std.err, config.Log{Level: "info", Format: "text"})
	store, err := parts.OpenStore(ctx, cfg, nil, log, nil)
	if err != nil {
		return err
	}
	run := &indexRun{store: store, registry: parts.NewRegistry(), log: log, std: std}
	o := cfg.IndexOptions()
	o.Follow, o.Logger = follow, log
	if again {
		err = run.rebuild(ctx, o, admin)
	}
	if err == nil && ctx.Err() == nil {
		err = run.run(ctx, o, admin)
	}
	return errors.Join(err, store.Close())
}

// An indexRun is one run of the command.
type indexRun struct {
	store    *collections.Store
	indexer  *indexer.Indexer
	registry *prometheus.Registry
	log      *slog.Logger
	std      streams
}

// run indexes while an admin listener and the log report the progress.
func (r *indexRun) run(ctx context.Context, o indexer.Options, admin string) (err error) {
	o.Store, o.Registerer = r.store, r.registry
	if r.indexer, err = indexer.New(o); err != nil {
		return err
	}
	r.registry.MustRegister(r.indexer.Outages())
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	if err := r.listen(reporting, &group, admin); err != nil {
		return err
	}
	group.Go(func() error {
		logIndex(reporting, r.indexer, r.log)
		return nil
	})
	err = r.index(ctx, o.Follow)
	stop()
	err = errors.Join(err, group.Wait())
	if s := r.indexer.Status(); s.Cursor.Block > 0 {
		fmt.Fprintf(r.std.out, "%s has chain %d up to block %d, %d logs in this run\n", r.store.Name(), s.Cursor.Chain, s.Cursor.Block, s.Logs)
	}
	return err
}

// index fills the store. It returns nil if ctx ends, because an interrupted run continues later.
func (r *indexRun) index(ctx context.Context, follow bool) (err error) {
	if follow {
		err = service.KeepIndexing(ctx, r.store, r.indexer, r.log)
	} else {
		err = r.store.Lead(ctx, r.indexer.Run)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// rebuild counts everything again in a second store next to the served one, and swaps the result in once
// it has caught up. If ctx ends, the next rebuild continues.
func (r *indexRun) rebuild(ctx context.Context, o indexer.Options, admin string) error {
	store := r.store
	before, err := store.Mark(ctx)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	shadow, err := store.Shadow(ctx)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	o.Follow = false
	o.Logger.Info("rebuilding into a second store", "shadow", shadow.Name())
	if m, err := shadow.Mark(ctx); err == nil && m.Cursor.Chain != 0 {
		o.Logger.Warn("continuing an interrupted rebuild; to count its blocks again, remove the second store first", "block", m.Cursor.Block)
	}
	second := &indexRun{store: shadow, registry: parts.NewRegistry(), log: r.log, std: r.std}
	err = errors.Join(second.run(ctx, o, admin), shadow.Close())
	if err == nil && ctx.Err() != nil {
		o.Logger.Info("rebuild interrupted, the next one continues it")
		return nil //nolint:nilerr // nothing is lost
	}
	if errors.Is(err, indexer.ErrOtherChain) || errors.Is(err, indexer.ErrDiverged) || errors.Is(err, indexer.ErrIncomplete) {
		err = errors.Join(err, store.DropShadow(ctx), errors.New("dropped the rebuilt store, the next rebuild starts again"))
	}
	if err == nil {
		err = checkRebuilt(before.Cursor, second.indexer.Status().Cursor)
	}
	if err == nil {
		err = store.SwapIn(ctx)
	}
	if err != nil {
		return fmt.Errorf("rebuild: the store is unchanged: %w", err)
	}
	o.Logger.Info("rebuild swapped into the store", "block", second.indexer.Status().Cursor.Block)
	return store.DropShadow(ctx)
}

// checkRebuilt returns an error if the second store must not replace one that was at another block of its chain when the
// rebuild began.
func checkRebuilt(before, rebuilt ledger.Cursor) error {
	switch {
	case rebuilt.Chain == 0:
		return errors.New("the second store is empty, because the chain has not reached the first block")
	case rebuilt.Chain == before.Chain && rebuilt.Block < before.Block:
		return fmt.Errorf("the second store ends at block %d, before block %d of the store: repeat the rebuild when the execution client has that block, or use another store if the chain was restarted", rebuilt.Block, before.Block)
	}
	return nil
}
