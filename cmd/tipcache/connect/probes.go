package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/collections/sqlstore"
	"github.com/tipcache/tipcache/upstream/node"
)

// findNode waits until a node can be read.
func findNode(ctx context.Context, cfg config.Config, e node.Endpoint, expected *chain) (string, error) {
	o := cfg.NodeOptions()
	o.Endpoints = []node.Endpoint{e}
	var err error
	if o.Dialect == "" {
		if o.Dialect, err = node.Detect(ctx, o.Endpoints); err != nil {
			return "", err
		}
	}
	pool, err := node.New(o)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	go func() { _ = pool.Run(ctx) }() // ended by Close
	for {
		h := pool.Health()[0]
		err := pool.Ready()
		switch ready := err == nil && h.Answering; {
		case ready && h.Height > 0:
			return fmt.Sprintf("chain %s, block %d, %s old, speaks %s", cmp.Or(h.ChainID, "unknown"), h.Height, h.BlockAge.Round(100*time.Millisecond), o.Dialect), expected.check(h.ChainID)
		case upstream.Sleep(ctx, 20*time.Millisecond) == nil:
		case ready && e.Comet == "":
			return "", warning(fmt.Sprintf("speaks %s, but no block is known after %v: until one is, freshness is in seconds", o.Dialect, timeout))
		default:
			return "", cmp.Or(err, errors.New("no block is known: "+h.LastError))
		}
	}
}

// findGRPC queries a node's gRPC for its chain.
func findGRPC(ctx context.Context, e node.Endpoint, expected *chain) (string, error) {
	id, err := node.CheckGRPC(ctx, e)
	return "chain " + id, cmp.Or(err, expected.check(id))
}

// parseRedis does not connect.
func parseRedis(cfg config.Redis) (string, error) {
	client, err := parts.OpenRedis(cfg)
	if err != nil {
		return "", err
	}
	return "not checked without --connect", client.Close()
}

// findRedis writes nothing and sends no message.
func findRedis(ctx context.Context, cfg config.Redis) (string, error) {
	client, err := parts.OpenRedis(cfg)
	if err != nil {
		return "", err
	}
	defer client.Close()
	began := time.Now()
	if err := client.Ping(ctx).Err(); err != nil {
		return "", err
	}
	took := time.Since(began)
	if err := client.Eval(ctx, "return 1", nil).Err(); err != nil {
		return "", fmt.Errorf("it refuses scripts: %w", err)
	}
	about, _ := client.Info(ctx, "server", "memory", "replication").Result() // an ACL may forbid it
	if infoField(about, "role") == "slave" {
		return "", errors.New("it is a replica, which refuses writes: redis.url must name the master")
	}
	text := fmt.Sprintf("connected in %v", took.Round(10*time.Microsecond))
	if version := infoField(about, "redis_version"); version != "" {
		text = fmt.Sprintf("Redis %s, %s used, ", version, infoField(about, "used_memory_human")) + text
	}
	return text, nil
}

// infoField returns a field of the response to INFO. The client library's InfoMap panics if the response has no section.
func infoField(info, field string) string {
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// findStore returns what the store holds. It creates no file and no table.
func findStore(ctx context.Context, cfg config.Config) (string, error) {
	switch scheme, path, _ := strings.Cut(cfg.Collections.Store, ":"); scheme {
	case "sqlite":
		return findFile(ctx, cfg, path)
	case "postgres", "postgresql":
		version, total, err := sqlstore.Check(ctx, cfg.Collections.Store, cfg.StoreOptions(), cfg.Index.Enabled)
		return describeStore(version, total, cfg, err)
	}
	store, err := parts.OpenStore(ctx, cfg, nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return "", err
	}
	defer store.Close()
	page, err := store.List(ctx, collections.Query{Limit: 1})
	return fmt.Sprintf("%d collections", page.Total), err
}

// describeStore returns a warning for an empty database that serve does not fill.
func describeStore(database string, total int64, cfg config.Config, err error) (string, error) {
	if err == nil && total == 0 && !cfg.Index.Enabled {
		return "", warning(database + " without collections: set index.enabled, or run tipcache index or tipcache import")
	}
	return fmt.Sprintf("%s, %d collections", database, total), err
}

func findFile(ctx context.Context, cfg config.Config, path string) (string, error) {
	if path == ":memory:" {
		return "in memory, lost with the process", nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return describeStore("a new file", 0, cfg, writable(filepath.Dir(path)))
	}
	if err == nil {
		err = errors.Join(openable(path), writable(filepath.Dir(path))) // SQLite writes its log next to the file
	}
	if err != nil {
		return "", err
	}
	_, total, err := sqlstore.Check(ctx, cfg.Collections.Store, cfg.StoreOptions(), cfg.Index.Enabled)
	return describeStore(fmt.Sprintf("a file of %v", config.Bytes(info.Size()&^1023)), total, cfg, err)
}

func findProvider(ctx context.Context, cfg config.Config) (string, error) {
	o := cfg.MetadataOptions()
	o.Store, o.Budget, o.Logger = emptyStore{}, timeout-100*time.Millisecond, slog.New(slog.DiscardHandler)
	service, err := metadata.Open(cfg.Metadata.Provider, o)
	if err != nil {
		return "", err
	}
	began := time.Now()
	_, degraded := service.Lookup(ctx, []string{"0x0000000000000000000000000000000000000001"}) // no contract
	took := time.Since(began)
	_, cause := service.State()
	_ = service.Close()
	if degraded {
		return "", cmp.Or(cause, context.DeadlineExceeded)
	}
	return fmt.Sprintf("answered in %v", took.Round(time.Millisecond)), nil
}

// emptyStore is a metadata store without records.
type emptyStore struct{}

func (emptyStore) Load(context.Context, []string) map[string]metadata.Record { return nil }
func (emptyStore) Save(context.Context, map[string]metadata.Record)          {}
