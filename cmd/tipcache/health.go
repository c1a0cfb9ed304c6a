package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/connect"
	"github.com/tipcache/tipcache/config"
)

// healthCommand is a probe for containers whose image has no other HTTP client.
func healthCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "ask a running serve whether it is ready; the exit status is the answer", Args: operands,
	}
	settings := addFlagsOf(c.Flags(), func(k config.Key) bool { return k.Path == "admin" })
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings.values["listen"] = []string{"127.0.0.1:0"} // nothing is listened on
		cfg, err := settings.load()
		if err != nil {
			return err
		}
		if cfg.Admin == "none" {
			return errors.New("admin is none: there is nobody to ask")
		}
		ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
		defer cancel()
		text, err := connect.AskOwn(ctx, cfg, "/readyz", "not ready")
		if err != nil {
			return err
		}
		_, err = std.out.Write(text)
		return err
	}
	return c
}
