package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
)

func configCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "print every setting with its variable, flag, default and meaning, or a file to begin with", Args: operands,
		Example: "  tipcache config --example > tipcache.yaml",
	}
	example := c.Flags().Bool("example", false, "print a commented configuration file for a real network, in place of the reference")
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
