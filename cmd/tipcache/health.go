package main

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

const healthTimeout = 3 * time.Second

// healthCommand probes readiness in containers without another HTTP client.
func healthCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "exit with status 0 if the running tipcache serve is ready", Args: operands,
	}
	admin := addAdminFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		text, err := admin.query(c.Context(), healthTimeout, http.MethodGet, "/readyz", "not ready")
		if err != nil {
			return err
		}
		_, err = std.out.Write(text)
		return err
	}
	return c
}
