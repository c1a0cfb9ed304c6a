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
		Use: "key", Short: "make an API key and the line that lets it in",
		RunE: func(*cobra.Command, []string) error { return errors.New("say tipcache key new NAME") },
	}
	c.AddCommand(&cobra.Command{
		Use: "new NAME", Short: "make an API key, which is shown only now, and the line of collections.keys that lets it in", Args: operands,
		RunE: func(_ *cobra.Command, args []string) error { return newKey(args[0], std.out) },
	})
	return c
}

func newKey(name string, w io.Writer) error {
	key := "tipcache_" + rand.Text()
	line := fmt.Sprintf("%s:%x", name, sha256.Sum256([]byte(key)))
	if _, err := config.ParseAPIKey(line); err != nil {
		return fmt.Errorf("the name is made of letters, digits, - _ and .: %q is not", name)
	}
	_, err := fmt.Fprintf(w, "key   %s\nline  %s\n", key, line)
	return err
}
