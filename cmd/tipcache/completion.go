package main

import (
	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
)

// complete adds shell completion of the allowed values of settings to a command and its subcommands.
func complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(sub)
	}
	for _, k := range config.Keys() {
		if k.Flag != "" && c.Flags().Lookup(k.Flag) != nil {
			_ = c.RegisterFlagCompletionFunc(k.Flag, cobra.FixedCompletions(k.OneOf, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
		}
	}
	if c.Flags().Lookup("config") != nil {
		_ = c.MarkFlagFilename("config", "yaml", "yml")
	}
}
