package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
)

// complete adds shell completion to a command and its subcommands: the allowed values of settings, or their defaults and
// how other values may begin.
func complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(sub)
	}
	for _, k := range config.Keys() {
		if k.Flag == "" || c.Flags().Lookup(k.Flag) == nil {
			continue
		}
		values, directive := k.OneOf, cobra.ShellCompDirectiveNoFileComp
		if len(values) == 0 {
			values = slices.DeleteFunc(append([]string{k.DefaultText()}, k.Forms...), func(v string) bool { return v == "" })
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		_ = c.RegisterFlagCompletionFunc(k.Flag, cobra.FixedCompletions(values, directive)) // fails only for unknown flags
	}
	if c.Flags().Lookup("config") != nil {
		_ = c.MarkFlagFilename("config", "yaml", "yml")
	}
}
