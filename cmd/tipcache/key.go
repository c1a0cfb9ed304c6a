package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

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
		RunE: func(_ *cobra.Command, args []string) error { return newKey(args[0], std.out) },
	})
	return c
}

func newKey(name string, w io.Writer) error {
	key := "tipcache_" + rand.Text()
	line := fmt.Sprintf("%s:%x", name, sha256.Sum256([]byte(key)))
	if _, err := config.ParseAPIKey(line); err != nil {
		return fmt.Errorf("%q is not a name: use letters, digits, -, _ and . only", name)
	}
	_, err := fmt.Fprintf(w, "key   %s\nline  %s\n", key, line)
	return err
}
