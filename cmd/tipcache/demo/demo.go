// Package demo runs serve in front of a simulated chain and provider, or only the simulation.
package demo

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Run serves until ctx ends. It prints example requests to out, and logs to log.
func Run(ctx context.Context, cfg config.Config, o devnet.Options, out, log io.Writer) error {
	redisURL, stopRedis, err := StartRedis()
	if err != nil {
		return err
	}
	defer stopRedis()
	d, err := Start(o)
	if err != nil {
		return err
	}
	key := rand.Text()
	Embed(&cfg, d, redisURL, key)
	cfg.Chain.Dialect = string(d.Dialect())                         // a node that fails from the start cannot show it
	cfg.Index.Enabled, cfg.Index.Network = true, []string{"aeneid"} // so that counts change
	cfg.Index.EVM, cfg.Index.From = []string{d.EVMURL()}, d.EVMStart()+1
	if at := d.Node().GRPCAddr(); at != "" {
		cfg.Chain.GRPC = []string{at}
	}
	s, err := New(ctx, cfg, d, log)
	if err == nil {
		err = errors.Join(printBanner(out, s, d, key), s.Run(ctx))
	}
	return errors.Join(err, d.Close())
}

// Embed points cfg at the devnet, a Redis and a store in memory, and accepts key as the only API key.
func Embed(cfg *config.Config, d *devnet.Devnet, redisURL, key string) {
	cfg.Chain.ID = d.ChainID()
	cfg.Chain.Nodes, cfg.Chain.Comet = []string{d.NodeURL()}, []string{d.CometURL()}
	cfg.Redis.URL = redisURL
	cfg.Collections.Store, cfg.Collections.Auth = "sqlite::memory:", "keys"
	cfg.Collections.Keys = []string{fmt.Sprintf("demo:%x", sha256.Sum256([]byte(key)))}
	cfg.Metadata.Provider = "alchemy:" + d.MetadataURL() + "/nft/v3/demo"
	cfg.Log.Format = "text"
	cfg.AdminToken = "none" // a demo has no secrets
}

// New returns a service with the collections of the devnet in its store.
func New(ctx context.Context, cfg config.Config, d *devnet.Devnet, log io.Writer) (*service.Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := service.New(ctx, cfg, parts.NewLogs(log, cfg.Log), service.Reloading{})
	if err != nil {
		return nil, err
	}
	_, err = s.Store().Import(ctx, func(yield func(collections.Collection, error) bool) {
		d.Collections()(func(c collections.Collection) bool { return yield(c, nil) })
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start starts a devnet.
func Start(o devnet.Options) (*devnet.Devnet, error) {
	d, err := devnet.New(o)
	if err != nil {
		return nil, err
	}
	return d, d.Start()
}

// StartRedis runs a Redis inside the process until stop is called.
func StartRedis() (url string, stop func(), err error) {
	server, err := miniredis.Run()
	if err != nil {
		return "", nil, fmt.Errorf("start the simulated Redis: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var clock sync.WaitGroup
	clock.Go(func() { // its own clock stands still, so keys would not expire
		for last := time.Now(); upstream.Sleep(ctx, 100*time.Millisecond) == nil; {
			now := time.Now()
			server.FastForward(now.Sub(last))
			last = now
		}
	})
	return "redis://" + server.Addr(), func() { cancel(); clock.Wait(); server.Close() }, nil
}

// FreeOr returns addr if it is free, and otherwise port 0 of its host.
func FreeOr(ctx context.Context, addr string) string {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		host, _, _ := net.SplitHostPort(addr)
		return net.JoinHostPort(host, "0")
	}
	_ = l.Close()
	return addr
}
