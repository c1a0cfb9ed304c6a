package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write a manual page of each command, in section 1", Args: operands,
		Example: "  tipcache man /usr/local/share/man/man1",
		RunE:    func(c *cobra.Command, args []string) error { return writeManual(c.Root(), args[0]) },
	}
}

// writeManual makes the directory where it is missing. The pages bear the month of
// SOURCE_DATE_EPOCH, or the current one.
func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "tipcache " + parts.Version(), Manual: "tipcache"}, dir)
}
