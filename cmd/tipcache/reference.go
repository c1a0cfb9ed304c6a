package main

import (
	"context"
	"fmt"

	"github.com/tipcache/tipcache/config"
)

func configCommand(_ context.Context, args []string, std streams) error {
	fs := newFlags("config", "print every setting with its variable, flag, default and meaning, as Markdown", std)
	if err := fs.parse(args, 0); err != nil {
		return err
	}
	fmt.Fprint(std.out, config.Reference())
	return nil
}
