package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func demoCommand(std streams) *cobra.Command {
	c := &cobra.Command{Use: "demo", Short: "serve with everything embedded: simulated chain, provider, Redis and store", Args: operands}
	cfg, o, fs := config.Default(), devnet.Options{}, c.Flags()
	fs.StringVar(&cfg.Listen, "listen", cfg.Listen, "`address` of the public listener; where it is the default and taken, any port")
	fs.StringVar(&cfg.Admin, "admin", cfg.Admin, "`address` of the admin listener, likewise")
	fs.StringVar(&cfg.Chain.Shape, "shape", cfg.Chain.Shape, "documented or node")
	fs.StringVar(&cfg.Log.Level, "log-level", "warn", "debug, info, warn or error")
	addDevnetFlags(fs, &o)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !fs.Changed("listen") {
			cfg.Listen = freeOr(c.Context(), cfg.Listen)
		}
		if !fs.Changed("admin") {
			cfg.Admin = freeOr(c.Context(), cfg.Admin)
		}
		return runDemo(c.Context(), cfg, o, std)
	}
	return c
}

// runDemo serves until ctx ends.
func runDemo(ctx context.Context, cfg config.Config, o devnet.Options, std streams) error {
	d, err := startDevnet(o)
	if err != nil {
		return err
	}
	key := rand.Text()
	embed(&cfg, d, key)
	follow(&cfg, d)
	s, err := newDemo(ctx, cfg, d, std)
	if err == nil {
		printDemo(std.out, s, d, key)
		err = s.run(ctx)
	}
	return errors.Join(err, d.Close())
}

// embed points cfg at the devnet and at what runs inside the process.
func embed(cfg *config.Config, d *devnet.Devnet, key string) {
	digest := sha256.Sum256([]byte(key))
	cfg.Chain.ID = d.ChainID()
	cfg.Chain.Nodes, cfg.Chain.Comet = []string{d.NodeURL()}, []string{d.CometURL()}
	cfg.Redis.URL = "embedded"
	cfg.Collections.Store, cfg.Collections.Auth = "sqlite::memory:", "keys"
	cfg.Collections.Keys = []string{"demo:" + hex.EncodeToString(digest[:])}
	cfg.Metadata.Network = d.ChainID()
	cfg.Metadata.Provider = "alchemy:" + d.MetadataURL() + "/nft/v3/demo"
	cfg.Log.Format = "text"
	cfg.AdminToken = "none" // nothing here is worth one
}

// follow has the store count on from the devnet's collections, so that their
// counters move while one watches.
func follow(cfg *config.Config, d *devnet.Devnet) {
	cfg.Index.Enabled, cfg.Index.Network = true, "aeneid"
	cfg.Index.EVM, cfg.Index.From = []string{d.EVMURL()}, d.EVMStart()+1
}

// newDemo builds the service with the devnet's collections in its store.
func newDemo(ctx context.Context, cfg config.Config, d *devnet.Devnet, std streams) (*service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := newService(ctx, cfg, newLogs(std.err, cfg.Log, levelOf(cfg.Log)))
	if err != nil {
		return nil, err
	}
	if _, err := s.store.Import(ctx, seeded(d)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func startDevnet(o devnet.Options) (*devnet.Devnet, error) {
	d, err := devnet.New(o)
	if err != nil {
		return nil, err
	}
	return d, d.Start()
}

// seeded yields the devnet's collections as a store takes them.
func seeded(d *devnet.Devnet) iter.Seq2[collections.Collection, error] {
	return func(yield func(collections.Collection, error) bool) {
		for c := range d.Collections() {
			if !yield(collections.Collection{
				Address:    c.CollectionAddress,
				AssetCount: c.AssetCount, LicensesCount: c.LicensesCount,
				RaisedDisputeCount: c.RaisedDisputeCount, CancelledDisputeCount: c.CancelledDisputeCount,
				JudgedDisputeCount: c.JudgedDisputeCount, ResolvedDisputeCount: c.ResolvedDisputeCount,
				CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
			}, nil) {
				return
			}
		}
	}
}

// freeOr keeps an address that is free, and else takes any port of its host.
func freeOr(ctx context.Context, addr string) string {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		host, _, _ := net.SplitHostPort(addr)
		return net.JoinHostPort(host, "0")
	}
	_ = l.Close()
	return addr
}

// printDemo prints lines that work when pasted. The addresses in them are the
// first of the simulated chain.
func printDemo(w io.Writer, s *service, d *devnet.Devnet, key string) {
	base, admin := "http://"+s.public.Addr().String(), "http://"+s.admin.Addr().String()
	collection := ""
	for c := range d.Collections() {
		collection = c.CollectionAddress
		break
	}
	fmt.Fprintf(w, "tipcache demo: chain %s and all around it, simulated in this process.\n\n", d.ChainID())
	fmt.Fprintf(w, "  public   %s\n  docs     %s/docs\n  admin    %s\n  faults   %s/devnet/faults\n  API key  %s\n\n", base, base, admin, d.ControlURL(), key)
	fmt.Fprintf(w, "Look first at %s/ (what it does, as charts) and %s/docs (what it answers, to try).\n\n", admin, base)
	fmt.Fprintln(w, "Chain queries:")
	shown := demoQueriesOf(d.Dialect())
	for _, path := range shown.paths {
		fmt.Fprintf(w, "  curl -i '%s%s'\n", base, path)
	}
	fmt.Fprintln(w, "\nCollections, a page and one:")
	for _, body := range []string{
		`{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":3}}`,
		`{"where":{"collectionAddresses":["` + collection + `"]}}`,
	} {
		fmt.Fprintf(w, "  curl -i '%s/api/v4/collections' -H 'X-Api-Key: %s' -H 'Content-Type: application/json' -d '%s'\n", base, key, body)
	}
	fmt.Fprintln(w, "\nOperation, and a node that fails for a while:")
	fmt.Fprintf(w, "  curl '%[1]s/readyz'\n  curl '%[1]s/metrics'\n  curl '%[1]s/admin/explain?url=%[2]s'\n  curl -X POST '%[1]s/admin/purge?route=staking_params'\n", admin, shown.explained)
	fmt.Fprintf(w, "  curl -X PUT '%s/devnet/faults' -d '{\"node\":{\"outage\":\"refuse\"}}'\n", d.ControlURL())
	fmt.Fprintf(w, "  curl -X PUT '%s/devnet/faults' -d '{\"node\":{}}'\n\nCtrl-C ends it.\n", d.ControlURL())
}
