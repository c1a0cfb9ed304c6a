package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func demoCommand(std streams) *cobra.Command {
	c := &cobra.Command{Use: "demo", Short: "serve a simulated chain, with a simulated metadata provider, Redis and store in the same process", Args: operands}
	cfg, o, fs := config.Default(), devnet.Options{}, c.Flags()
	fs.StringVar(&cfg.Listen, "listen", cfg.Listen, "`address` of the public listener; any port if the default is taken")
	fs.StringVar(&cfg.Admin, "admin", cfg.Admin, "`address` of the admin listener; any port if the default is taken")
	fs.StringVar(&cfg.RPC.Listen, "rpc-listen", "", "`address` of the CometBFT RPC listener (default none, or 127.0.0.1:8082 with --dialect cosmos; any port if that is taken)")
	fs.StringVar(&cfg.GRPC.Listen, "grpc-listen", "", "`address` of the gRPC listener (default none, or 127.0.0.1:8083 with --dialect cosmos; any port if that is taken)")
	fs.StringVar((*string)(&cfg.Chain.Shape), "shape", string(cfg.Chain.Shape), "format of Story responses: documented or node")
	fs.StringVar(&cfg.Log.Level, "log-level", "warn", "log level: debug, info, warn or error")
	demo.AddFlags(fs, &o)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !fs.Changed("listen") {
			cfg.Listen = demo.FreeOr(c.Context(), cfg.Listen)
		}
		if !fs.Changed("admin") {
			cfg.Admin = demo.FreeOr(c.Context(), cfg.Admin)
		}
		if o.Dialect == devnet.Cosmos {
			cfg.RPC.Listen = cmp.Or(cfg.RPC.Listen, demo.FreeOr(c.Context(), "127.0.0.1:8082"))
			cfg.GRPC.Listen = cmp.Or(cfg.GRPC.Listen, demo.FreeOr(c.Context(), "127.0.0.1:8083"))
		}
		return demo.Run(c.Context(), cfg, o, std.out, std.err)
	}
	return c
}

func devnetCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "devnet", Short: "run a simulated node, CometBFT, execution client and metadata provider, without tipcache in front", Args: operands,
	}
	o, fs := devnet.Options{
		NodeAddr: "127.0.0.1:1317", CometAddr: "127.0.0.1:26657", GRPCAddr: "127.0.0.1:9090",
		MetadataAddr: "127.0.0.1:1318", ControlAddr: "127.0.0.1:1319", EVMAddr: "127.0.0.1:8545",
	}, c.Flags()
	demo.AddFlags(fs, &o)
	fs.StringVar(&o.NodeAddr, "node-listen", o.NodeAddr, "`address` of the REST server")
	fs.StringVar(&o.CometAddr, "comet-listen", o.CometAddr, "`address` of the CometBFT RPC server")
	fs.StringVar(&o.GRPCAddr, "grpc-listen", o.GRPCAddr, "`address` of the gRPC server, with --dialect cosmos")
	fs.StringVar(&o.EVMAddr, "evm-listen", o.EVMAddr, "`address` of the execution client")
	fs.StringVar(&o.MetadataAddr, "metadata-listen", o.MetadataAddr, "`address` of the metadata provider")
	fs.StringVar(&o.ControlAddr, "control-listen", o.ControlAddr, "`address` of the server that injects faults")
	dump := fs.String("write-collections", "", "write the simulated collections to `FILE`, for tipcache import")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return demo.Simulate(c.Context(), o, *dump, std.out)
	}
	return c
}
