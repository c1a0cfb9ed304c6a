package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/node"
)

func openAPICommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "openapi", Short: "print the OpenAPI document of the served API", Args: operands,
		Example: "  tipcache openapi --dialect cosmos > openapi.json\n  tipcache openapi --config tipcache.yaml --mount /api",
	}
	mount := c.Flags().String("mount", "/", "base `path` of http.mounts whose document to print")
	settings := addSettingFlags(c.Flags())
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := settings.load()
		if err != nil {
			return err
		}
		cfg.Chain.Dialect = cmp.Or(cfg.Chain.Dialect, string(node.Story)) // no node is contacted
		text, err := proxy.Document(cfg.ProxyOptions(), *mount)
		if err != nil {
			return err
		}
		_, err = std.out.Write(append(text, '\n'))
		return err
	}
	return c
}

func configCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "print every setting with its variable, flag, default and meaning, or an example file", Args: operands,
		Example: "  tipcache config --example > tipcache.yaml",
	}
	example := c.Flags().Bool("example", false, "print an example configuration file with comments instead")
	c.RunE = func(*cobra.Command, []string) error {
		text := config.Reference()
		if *example {
			text = config.Example
		}
		_, err := fmt.Fprint(std.out, text)
		return err
	}
	return c
}
