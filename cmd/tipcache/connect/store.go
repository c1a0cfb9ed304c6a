package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/sqlstore"
)

func storeProbe(cfg config.Config) probe {
	address, local := strings.CutPrefix(cfg.Collections.Store, "sqlite:")
	if !local {
		address = config.Host(address)
	}
	return probe{part: "store", address: address, find: func(ctx context.Context) (string, error) { return findStore(ctx, cfg) }}
}

// findStore returns what the store holds. It creates no file and no table.
func findStore(ctx context.Context, cfg config.Config) (string, error) {
	switch scheme, path, _ := strings.Cut(cfg.Collections.Store, ":"); {
	case path == ":memory:":
		return "in memory, lost with the process", nil
	case strings.HasPrefix(scheme, "http"):
		store, err := parts.OpenStore(ctx, cfg, nil, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return "", err
		}
		defer store.Close()
		page, err := store.List(ctx, collections.Query{Limit: 1})
		return fmt.Sprintf("%d collections", page.Total), err
	case scheme == "sqlite":
		if found, err := findFile(path); found == newFile || err != nil {
			return describeStore(found, 0, cfg, err)
		}
	}
	version, total, err := sqlstore.Check(ctx, cfg.Collections.Store, collections.Options{Settings: cfg.Collections.Settings}, cfg.Index.Enabled)
	return describeStore(version, total, cfg, err)
}

// describeStore returns a warning for an empty database that serve does not fill.
func describeStore(database string, total int64, cfg config.Config, err error) (string, error) {
	if err == nil && total == 0 && !cfg.Index.Enabled {
		return "", warning(database + " without collections: set index.enabled, or run tipcache index or tipcache import")
	}
	return fmt.Sprintf("%s, %d collections", database, total), err
}

const newFile = "a new file"

// findFile returns newFile if a database file does not exist, and else "". The file must be writable, and its directory, too, in
// which SQLite creates its log.
func findFile(path string) (found string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		found, err = newFile, nil
	case err == nil && info.IsDir():
		err = unix.EISDIR
	case err == nil:
		err = unix.Access(path, unix.W_OK)
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return "", fmt.Errorf("create a file in %s: %w", dir, err)
	}
	return found, nil
}
