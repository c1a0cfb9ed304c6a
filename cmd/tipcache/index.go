package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

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
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may end before the process
	log := parts.NewLogger(std.err, config.Log{Level: "info", Format: "text"})
	store, err := parts.OpenStore(ctx, cfg, nil, log, nil)
	if err != nil {
		return err
	}
	run := &indexRun{log: log, std: std}
	o := cfg.IndexOptions()
	o.Follow, o.Logger = follow, log
	return errors.Join(run.run(ctx, store, o, admin, again), store.Close())
}

// An indexRun is one run of the command.
type indexRun struct {
	shown atomic.Pointer[filling] // by the admin listener
	log   *slog.Logger
	std   streams
}

// A filling fills a store.
type filling struct {
	store    *collections.Store
	indexer  *indexer.Indexer
	registry *prometheus.Registry
}

// newFilling returns a filling with an indexer whose options are o.
func newFilling(store *collections.Store, o indexer.Options) (f *filling, err error) {
	f = &filling{store: store, registry: parts.NewRegistry()}
	o.Store, o.Registerer = store, f.registry
	if f.indexer, err = indexer.New(o); err == nil {
		f.registry.MustRegister(f.indexer.Outages())
	}
	return f, err
}

// run fills the store, or rebuilds it if again is true, and then follows the chain if o.Follow is true. An admin listener reports
// the progress.
func (r *indexRun) run(ctx context.Context, store *collections.Store, o indexer.Options, admin string, again bool) error {
	served, err := newFilling(store, o)
	if err != nil {
		return err
	}
	r.shown.Store(served)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	if err := r.listen(serving, &group, admin); err != nil {
		return err
	}
	if again {
		if err = r.rebuild(ctx, served, o); isInterrupted(ctx, err) {
			r.log.Info("rebuild interrupted, the next one continues it")
		}
	}
	if err == nil && (o.Follow || !again) {
		err = r.fill(ctx, served, o.Follow)
	}
	stop()
	if isInterrupted(ctx, err) {
		err = nil // the next run continues
	}
	return errors.Join(err, group.Wait())
}

// isInterrupted reports whether err is the end of ctx.
func isInterrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// fill indexes, and logs the progress.
func (r *indexRun) fill(ctx context.Context, f *filling, follow bool) (err error) {
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	var logging sync.WaitGroup
	logging.Go(func() { logIndex(reporting, f.indexer, r.log) })
	if follow {
		err = service.KeepIndexing(ctx, f.store, f.indexer, r.log)
	} else {
		err = f.store.Lead(ctx, f.indexer.Run)
	}
	stop()
	logging.Wait()
	switch s := f.indexer.Status(); {
	case s.Cursor.Block > 0:
		fmt.Fprintf(r.std.out, "%s has chain %d up to block %d, %d logs in this run\n", f.store.Name(), s.Cursor.Chain, s.Cursor.Block, s.Logs)
	case err == nil && !follow:
		fmt.Fprintf(r.std.out, "%s is empty: the chain has block %d, but not the first block to index\n", f.store.Name(), s.Head)
	}
	return err
}

// rebuild counts everything again in a second store next to the served one, and swaps the result in once
// it has caught up. If ctx ends before that, the next rebuild continues.
func (r *indexRun) rebuild(ctx context.Context, served *filling, o indexer.Options) error {
	store := served.store
	before, err := store.Mark(ctx)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	shadow, err := store.Shadow(ctx)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	o.Follow, o.Strict = false, true
	r.log.Info("rebuilding into a second store", "shadow", shadow.Name())
	if m, err := shadow.Mark(ctx); err == nil && m.Cursor.Chain != 0 {
		r.log.Warn("continuing an interrupted rebuild; to count its blocks again, remove the second store first", "block", m.Cursor.Block)
	}
	second, err := newFilling(shadow, o)
	if err == nil {
		r.shown.Store(second)
		err = r.fill(ctx, second, false)
		r.shown.Store(served)
	}
	err = errors.Join(err, shadow.Close())
	if errors.Is(err, indexer.ErrOtherChain) || errors.Is(err, indexer.ErrDiverged) || errors.Is(err, indexer.ErrIncomplete) {
		err = errors.Join(err, store.DropShadow(ctx), errors.New("dropped the rebuilt store, the next rebuild starts again"))
	}
	if err == nil {
		err = checkRebuilt(before.Cursor, second.indexer.Status().Cursor)
	}
	if err != nil {
		return fmt.Errorf("rebuild: the store is unchanged: %w", err)
	}
	r.log.Info("replacing the store")
	ctx = context.WithoutCancel(ctx) // the replacement ends before an interruption does, so that its result is known
	if err := store.SwapIn(ctx); err != nil {
		return fmt.Errorf("rebuild: the store was replaced if the second store is empty now, by this or another rebuild, and is unchanged otherwise: %w", err)
	}
	r.log.Info("rebuild swapped into the store", "block", second.indexer.Status().Cursor.Block)
	fmt.Fprintf(r.std.out, "%s is rebuilt up to block %d\n", store.Name(), second.indexer.Status().Cursor.Block)
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
