package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

func importCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "import FILE.jsonl", Short: "load collections into a store from a file with one JSON object per line", Args: operands,
		Long: "Load collections into a store from a file with one JSON object per line. If a line is invalid, nothing is loaded.\n" +
			"The file name - reads standard input.",
	}
	settings := addFlagsOf(c.Flags(), func(k config.Key) bool { return k.Path == "collections.store" })
	force := c.Flags().Bool("force", false, "import into an indexed store: the imported counts replace those of the chain")
	c.RunE = func(c *cobra.Command, args []string) error {
		return runImport(c.Context(), settings, args[0], *force, std)
	}
	return c
}

func runImport(ctx context.Context, settings *settingFlags, path string, force bool, std streams) error {
	cfg, err := settings.loadForStore()
	if err != nil {
		return err
	}
	in := os.Stdin
	if path != "-" {
		if in, err = os.Open(path); err != nil {
			return fmt.Errorf("import: %w", err) // before the store is opened, which may create it
		}
		defer in.Close()
	}
	log := parts.NewLogger(std.err, config.Log{Level: "info", Format: "text"})
	store, err := parts.OpenStore(ctx, cfg, nil, log, nil)
	if err != nil {
		return err
	}
	n, ignored, outcome := 0, 0, "nothing was imported"
	if err = checkNotIndexed(ctx, store); err == nil || force {
		n, err = importFrom(ctx, store, collections.ReadJSONL(in, &ignored), log)
		if kind := upstream.KindOf(err); isInterrupted(ctx, err) || kind == upstream.Unreachable || kind == upstream.Timeout {
			outcome = "either everything or nothing was imported, so repeat the import"
		}
	}
	if errors.Is(err, ledger.ErrCursorMoved) {
		err = errors.New("an indexer has begun to fill the store meanwhile")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("import %s: %s: %w", path, outcome, err), store.Close())
	}
	fmt.Fprintf(std.out, "imported %d collections into %s\n", n, store.Name())
	if ignored > 0 {
		fmt.Fprintf(std.out, "ignored the collectionMetadata of %d lines: a store has none, serve reads it from metadata.provider\n", ignored)
	}
	return store.Close()
}

// checkNotIndexed returns an error if an indexer fills the store.
func checkNotIndexed(ctx context.Context, store *collections.Store) error {
	m, err := store.Mark(ctx)
	switch {
	case errors.Is(err, collections.ErrNotIndexed):
		return nil // Import returns the reason
	case err == nil && m.Cursor.Chain != 0:
		return fmt.Errorf("the store is indexed from chain %d up to block %d, and the indexer would add to imported counts: use --force to import nevertheless", m.Cursor.Chain, m.Cursor.Block)
	}
	return err
}

func importFrom(ctx context.Context, store *collections.Store, all iter.Seq2[collections.Collection, error], log *slog.Logger) (int, error) {
	n, next := 0, time.Now().Add(progressInterval)
	return store.Import(ctx, func(yield func(collections.Collection, error) bool) {
		for c, err := range all {
			if n++; time.Now().After(next) {
				log.Info("importing", "collections", n)
				next = time.Now().Add(progressInterval)
			}
			if !yield(c, err) {
				return
			}
		}
	})
}
