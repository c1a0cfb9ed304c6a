package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
)

func keyCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "create API keys",
		RunE: func(*cobra.Command, []string) error { return errors.New("expected tipcache key new NAME") },
	}
	c.AddCommand(&cobra.Command{
		Use: "new NAME", Short: "print a new API key, and its line for collections.keys", Args: operands,
		RunE: func(_ *cobra.Command, args []string) error {
			key := "tipcache_" + rand.Text()
			line := fmt.Sprintf("%s:%x", args[0], sha256.Sum256([]byte(key)))
			if _, err := config.ParseAPIKey(line); err != nil {
				return fmt.Errorf("%q is not a name: use letters, digits, -, _ and . only", args[0])
			}
			_, err := fmt.Fprintf(std.out, "key   %s\nline  %s\n", key, line)
			return err
		},
	})
	return c
}
