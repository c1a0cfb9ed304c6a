package main

import (
	"context"
	"fmt"
)

func checkCommand(_ context.Context, args []string, std streams) error {
	_, cfg, err := parseSettings("check", "validate the configuration that serve would run with and report every problem at once", args, std)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The configuration is valid: %d node(s), shape %s, collections %s.\n",
		len(cfg.Chain.Nodes), cfg.Chain.Shape, cfg.Collections.Auth)
	return nil
}
