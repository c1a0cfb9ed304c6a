package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/story"
)

// complete adds shell completion to a command and its subcommands.
func complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(sub)
	}
	completeValues(c)
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if wanted := strings.Fields(c.Use)[1:]; len(args) < len(wanted) {
			return operandValues(wanted[len(args)])
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeValues completes the values of flags: the allowed values of a setting, or its default and how
// other values may begin.
func completeValues(c *cobra.Command) {
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

// operandValues completes an operand by its name in the usage line.
func operandValues(name string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch name {
	case "URL":
		return paths(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	case "DIR":
		return nil, cobra.ShellCompDirectiveFilterDirs
	case "FILE.jsonl":
		return []cobra.Completion{"jsonl"}, cobra.ShellCompDirectiveFilterFileExt
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// paths returns the paths of both dialects, up to their first parameter.
func paths() []string {
	all := []string{collections.Path}
	for _, row := range append(story.Rows(nil), cosmos.Rows(nil)...) {
		path, _, _ := strings.Cut(row.Pattern, "{")
		all = append(all, path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
