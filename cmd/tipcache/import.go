package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
)

func importCommand(ctx context.Context, args []string, std streams) error {
	fs := newFlags("import", "load collections into a store from FILE.jsonl, or - for standard input; the whole file or nothing", std)
	cfg := config.Default()
	fs.StringVar(&cfg.Collections.Store, "store", cfg.Collections.Store, "`URL` of the store: sqlite:PATH or postgres://...")
	if err := fs.parse(args, 1); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("no file given: tipcache import --store URL FILE.jsonl")
	}
	store, err := openStore(ctx, cfg, newLogger(std.err, config.Log{Level: "warn", Format: "text"}), nil)
	if err != nil {
		return err
	}
	n, err := importFile(ctx, store, fs.Arg(0), std.err)
	if err = errors.Join(err, store.Close()); err != nil {
		return fmt.Errorf("import %s: nothing was imported: %w", fs.Arg(0), err)
	}
	fmt.Fprintf(std.out, "imported %d collections into %s\n", n, store.Name())
	return nil
}

func importFile(ctx context.Context, store *collections.Store, path string, progress io.Writer) (int, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		in = f
	}
	r, done := withProgress(in, progress)
	defer done()
	return store.Import(ctx, collections.ReadJSONL(r))
}

// withProgress draws a bar of the bytes read when w is a terminal.
func withProgress(in *os.File, w io.Writer) (io.Reader, func()) {
	out, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return in, func() {}
	}
	size := int64(-1)
	if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(out), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("importing"), progressbar.OptionClearOnFinish())
	reader := progressbar.NewReader(in, bar)
	return &reader, func() { _ = bar.Finish() }
}
