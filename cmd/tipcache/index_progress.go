package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// isWide tells whether a terminal has room for all figures.
func isWide(w io.Writer) bool {
	out, ok := w.(*os.File)
	if !ok {
		return false
	}
	columns, _, _ := term.GetSize(int(out.Fd()))
	return columns >= 120
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
			_ = bar.RenderBlank() // the bar moves before the first figure is known
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

// every does something now and then until ctx ends, and once more then.
func every(ctx context.Context, interval time.Duration, do func()) {
	for upstream.Sleep(ctx, interval) == nil {
		do()
	}
	do()
}
