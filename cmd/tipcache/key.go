package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/config"
)

func keyCommand(_ context.Context, args []string, std streams) error {
	fs := newFlags("key new NAME", "make an API key, which is shown only now, and the line of collections.keys that lets it in", std)
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if args[0] != "new" {
			return fmt.Errorf("unknown command key %q; say tipcache key new NAME", args[0])
		}
		args = args[1:]
	}
	if err := fs.parse(args, 1); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("whose key? say tipcache key new NAME")
	}
	key := "tipcache_" + rand.Text()
	line := config.APIKey{Name: fs.Arg(0), SHA256: sha256.Sum256([]byte(key))}.String()
	if _, err := config.ParseAPIKey(line); err != nil {
		return fmt.Errorf("the name is made of letters, digits, - _ and .: %q is not", fs.Arg(0))
	}
	fmt.Fprintf(std.out, "key   %s\nline  %s\n", key, line)
	return nil
}
