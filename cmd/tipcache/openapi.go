package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/node"
)

func openAPICommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "openapi", Short: "print the OpenAPI document of what serve would answer, for generators of clients", Args: operands,
		Example: "  tipcache openapi --dialect cosmos > openapi.json",
	}
	settings := addSettingFlags(c.Flags())
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := settings.load()
		if err != nil {
			return err
		}
		cfg.Chain.Dialect = cmp.Or(cfg.Chain.Dialect, string(node.Story)) // no node is asked
		text, err := proxy.Document(parts.Proxy(cfg))
		if err != nil {
			return err
		}
		_, err = std.out.Write(append(text, '\n'))
		return err
	}
	return c
}
