package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/indexer"
)

func indexCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "index", Short: "fill a store from the events of the chain's execution client; interrupted, it goes on where it was", Args: operands,
	}
	settings := addFlagsOf(c.Flags(), func(k config.Key) bool {
		return k.Path == "collections.store" || strings.HasPrefix(k.Path, "index.") && k.Path != "index.enabled"
	})
	follow := c.Flags().Bool("follow", false, "go on with new blocks until interrupted")
	admin := c.Flags().String("admin", "none", "`address` of a listener for /healthz, /readyz and /metrics while it runs; that of serve, which the configuration names, is another")
	c.RunE = func(c *cobra.Command, _ []string) error { return runIndex(c.Context(), settings, *admin, *follow, std) }
	return c
}

func runIndex(ctx context.Context, settings *settingFlags, admin string, follow bool, std streams) error {
	// What the command says by itself: to index, and that nobody is served.
	settings.values["index"], settings.values["admin"] = []string{"true"}, []string{"none"}
	settings.values["collections-auth"] = []string{"none"}
	cfg, err := settings.load()
	if err != nil {
		return err
	}
	log := newLogger(std.err, config.Log{Level: "info", Format: "text"})
	store, err := openStore(ctx, cfg, log, nil)
	if err != nil {
		return err
	}
	if isTerminal(std.err) {
		log = newLogger(io.Discard, cfg.Log) // the bar says it
	}
	run := &indexRun{store: store, registry: newRegistry(), log: log, std: std}
	o := indexOptions(cfg)
	o.Store, o.Follow, o.Logger, o.Registerer = store, follow, log, run.registry
	if run.indexer, err = indexer.New(o); err == nil {
		err = run.observed(ctx, admin, follow)
	}
	return errors.Join(err, store.Close())
}

// indexRun is one run of the command.
type indexRun struct {
	store    *collections.Store
	indexer  *indexer.Indexer
	registry *prometheus.Registry
	log      *slog.Logger
	std      streams
}

// observed indexes while an admin listener, and the terminal or the log, tell
// how far it is.
func (r *indexRun) observed(ctx context.Context, admin string, follow bool) error {
	stop, err := r.listen(ctx, admin)
	if err != nil {
		return err
	}
	telling, silence := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		if isTerminal(r.std.err) {
			drawIndex(telling, r.indexer, r.std.err)
		} else {
			logIndex(telling, r.indexer, r.log)
		}
	}()
	err = r.index(ctx, follow)
	silence()
	<-told
	if s := r.indexer.Status(); s.Cursor.Block > 0 {
		fmt.Fprintf(r.std.out, "%s holds chain %d up to block %d, %d logs of this run\n", r.store.Name(), s.Cursor.Chain, s.Cursor.Block, s.Logs)
	}
	return errors.Join(err, stop())
}

// index returns nil when it is interrupted, which loses nothing.
func (r *indexRun) index(ctx context.Context, follow bool) (err error) {
	if follow {
		err = keepIndexing(ctx, r.store, r.indexer, r.log)
	} else {
		err = r.store.Lead(ctx, r.indexer.Run)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// indexOptions translates a valid configuration.
func indexOptions(cfg config.Config) indexer.Options {
	c := cfg.Index
	network, public := indexer.Networks()[c.Network]
	if !public {
		network.ChainID = c.Contracts.ChainID
		network.Registry, _ = indexer.ParseAddress(c.Contracts.Registry) // validated
		network.Licensing, _ = indexer.ParseAddress(c.Contracts.Licensing)
		network.Disputes, _ = indexer.ParseAddress(c.Contracts.Disputes)
	}
	return indexer.Options{
		Endpoints: c.EVM,
		Network:   network,
		From:      c.From,
		Window:    c.Window,
		Ahead:     c.Ahead,
		Poll:      c.Poll,
		Timeout:   c.Timeout,
	}
}

func isTerminal(w io.Writer) bool {
	out, ok := w.(*os.File)
	return ok && term.IsTerminal(int(out.Fd()))
}

// wideColumns are those that a bar needs for all its figures.
const wideColumns = 120

// isWide tells whether a terminal has room for all figures.
func isWide(w io.Writer) bool {
	out, ok := w.(*os.File)
	if !ok {
		return false
	}
	columns, _, err := term.GetSize(int(out.Fd()))
	return err == nil && columns >= wideColumns
}

// drawIndex draws a bar of blocks with the time left and, where there is room,
// the rate.
func drawIndex(ctx context.Context, x *indexer.Indexer, w io.Writer) {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(w), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionSetDescription("finding the first block"),
	}
	describe := func(s indexer.Status) string { return fmt.Sprintf("block %d", s.Cursor.Block) }
	if isWide(w) {
		describe = func(s indexer.Status) string {
			return fmt.Sprintf("block %d, %d logs, windows of %d", s.Cursor.Block, s.Logs, s.Window)
		}
		options = append(options, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("blocks"))
	}
	bar := progressbar.NewOptions64(-1, options...)
	defer func() {
		_ = bar.Exit()
		fmt.Fprintln(w) // what follows has a line of its own
	}()
	every(ctx, 200*time.Millisecond, func() {
		s := x.Status()
		if s.First == 0 {
			_ = bar.RenderBlank() // it shows that it lives
			return
		}
		bar.ChangeMax64(max(s.Head-s.First+1, 1))
		bar.Describe(describe(s))
		_ = bar.Set64(max(s.Cursor.Block-s.First+1, 0)) // fails only when the terminal is gone
	})
}

// logIndex writes a line now and then.
func logIndex(ctx context.Context, x *indexer.Indexer, log *slog.Logger) {
	began, last := time.Now(), int64(-1)
	every(ctx, 10*time.Second, func() {
		s := x.Status()
		if s.Cursor.Block == last {
			return
		}
		last = s.Cursor.Block
		log.Info("indexing", "block", s.Cursor.Block, "head", s.Head, "logs", s.Logs, "window", s.Window,
			"logs_per_second", int64(float64(s.Logs)/time.Since(began).Seconds()), "left", timeLeft(s, time.Since(began)).String())
	})
}

// timeLeft guesses from the blocks done so far.
func timeLeft(s indexer.Status, took time.Duration) time.Duration {
	done, left := s.Cursor.Block-s.First+1, s.Head-s.Cursor.Block
	if s.First == 0 || done <= 0 || left <= 0 {
		return 0
	}
	return (time.Duration(float64(took) / float64(done) * float64(left))).Round(time.Second)
}

func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			do()
			return
		}
	}
}
