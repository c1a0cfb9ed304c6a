package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/connect"
)

func checkCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "validate the configuration, and check addresses, certificate and SQLite store on this machine", Args: operands,
	}
	reach := c.Flags().Bool("connect", false, "also connect to nodes, Redis, collection store, metadata provider and execution clients, and report the results")
	settings := addSettingFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := settings.load()
		if err != nil {
			return err
		}
		shape := ", shape " + string(cfg.Chain.Shape)
		if cfg.Chain.Dialect == "cosmos" {
			shape = "" // nodes have only one
		}
		if _, err := fmt.Fprintf(std.out, "The configuration is valid: %d node(s)%s, collections.auth %s.\n",
			len(cfg.Chain.Nodes), shape, cfg.Collections.Auth); err != nil {
			return err
		}
		for _, warning := range cfg.Warnings {
			fmt.Fprintf(std.out, "Warning: %v\n", warning)
		}
		for _, m := range cfg.HTTP.Mounts {
			fmt.Fprintf(std.out, "Base path %s: shape %s, fallback %s.\n", m.Path, cmp.Or(m.Shape, cfg.Chain.Shape), cmp.Or(m.Fallback, "none"))
		}
		return connect.Check(c.Context(), cfg, *reach, std.out)
	}
	return c
}
