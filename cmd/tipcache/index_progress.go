package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
)

// progressInterval is the interval at which long commands log their progress.
const progressInterval = 10 * time.Second

// logIndex logs the progress until ctx ends, and once more then.
func logIndex(ctx context.Context, x *indexer.Indexer, log *slog.Logger) {
	began, last := time.Now(), int64(-1)
	for ended := false; !ended; {
		ended = upstream.Sleep(ctx, progressInterval) != nil
		s := x.Status()
		if s.Head == 0 || s.Cursor.Block == last {
			continue
		}
		last = s.Cursor.Block
		log.Info("indexing", "block", s.Cursor.Block, "head", s.Head, "logs", s.Logs, "window", s.Window,
			"logs_per_second", int64(float64(s.Logs)/time.Since(began).Seconds()), "left", timeLeft(s, time.Since(began)))
	}
}

// timeLeft estimates the remaining time from the blocks done so far. It is unknown before the first ones.
func timeLeft(s indexer.Status, took time.Duration) string {
	done, left := s.Cursor.Block-s.First+1, s.Head-s.Cursor.Block
	switch {
	case s.Cursor.Chain == 0 || done <= 0 && left > 0:
		return "unknown"
	case left <= 0:
		return "0s"
	}
	return time.Duration(float64(took) / float64(done) * float64(left)).Round(time.Second).String()
}
