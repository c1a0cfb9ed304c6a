package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/connect"
	"github.com/tipcache/tipcache/config"
)

// healthCommand probes readiness in containers without another HTTP client.
func healthCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "exit with status 0 if the running serve is ready", Args: operands,
	}
	settings := addFlagsOf(c.Flags(), func(k config.Key) bool { return k.Path == "admin" })
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings.values["listen"] = []string{"127.0.0.1:0"} // not opened
		cfg, err := settings.load()
		if err != nil {
			return err
		}
		if cfg.Admin == "none" {
			return errors.New("admin is none, so there is no listener to query")
		}
		ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
		defer cancel()
		text, err := connect.QueryLocal(ctx, cfg, "/readyz", "not ready")
		if err != nil {
			return err
		}
		_, err = std.out.Write(text)
		return err
	}
	return c
}
