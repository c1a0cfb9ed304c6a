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

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/indexer"
)

func indexCommand(ctx context.Context, args []string, std streams) error {
	fs := newFlags("index", "fill a store from the events of the chain's execution client; interrupted, it goes on where it was", std)
	settings := addFlagsOf(fs, func(k config.Key) bool {
		return k.Path == "collections.store" || strings.HasPrefix(k.Path, "index.") && k.Path != "index.enabled"
	})
	follow := fs.Bool("follow", false, "go on with new blocks until interrupted")
	if err := fs.parse(args, 0); err != nil {
		return err
	}
	// What the command says by itself: to index, and that nobody is served.
	settings.values["index"] = []string{"true"}
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
	o := indexOptions(cfg)
	o.Store, o.Follow = store, *follow
	if isTerminal(std.err) {
		log = newLogger(io.Discard, cfg.Log) // the bar says it
	}
	o.Logger = log
	x, err := indexer.New(o)
	if err == nil {
		err = runIndex(ctx, x, store, std, log)
	}
	return errors.Join(err, store.Close())
}

// runIndex runs an indexer and tells how far it is.
func runIndex(ctx context.Context, x *indexer.Indexer, store *collections.Store, std streams, log *slog.Logger) error {
	telling, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		if isTerminal(std.err) {
			drawIndex(telling, x, std.err)
		} else {
			logIndex(telling, x, log)
		}
	}()
	err := store.Lead(ctx, x.Run)
	stop()
	<-told
	s := x.Status()
	if s.Cursor.Block > 0 {
		fmt.Fprintf(std.out, "%s holds chain %d up to block %d, %d logs of this run\n", store.Name(), s.Cursor.Chain, s.Cursor.Block, s.Logs)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // interrupted, which loses nothing
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

// drawIndex draws a bar of blocks with the rate and the time left.
func drawIndex(ctx context.Context, x *indexer.Indexer, w io.Writer) {
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("blocks"), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetDescription("waiting"))
	defer func() { _ = bar.Exit() }()
	every(ctx, 200*time.Millisecond, func() {
		s := x.Status()
		if s.First == 0 {
			return
		}
		bar.ChangeMax64(max(s.Head-s.First+1, 1))
		bar.Describe(fmt.Sprintf("block %d, %d logs, windows of %d", s.Cursor.Block, s.Logs, s.Window))
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
