package main

import (
	"context"
	"fmt"
)

func checkCommand(_ context.Context, args []string, std streams) error {
	fs := newFlags("check", "validate the configuration that serve would run with and report every problem at once", std)
	settings := addSettingFlags(fs)
	if err := fs.parse(args, 0); err != nil {
		return err
	}
	cfg, err := settings.load()
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The configuration is valid: %d node(s), shape %s, collections %s.\n",
		len(cfg.Chain.Nodes), cfg.Chain.Shape, cfg.Collections.Auth)
	return nil
}
