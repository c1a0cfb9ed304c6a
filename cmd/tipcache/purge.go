package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

func purgeCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "purge SELECTION", Short: "remove entries from the caches of all replicas, and from Redis", Args: operands,
		Long: "Ask a running serve to remove entries from its memory, from Redis, and from all replicas with the same Redis.\n" +
			"SELECTION is route=NAME, method=SERVICE/METHOD, prefix=KEY, address=0x... or all.",
		Example: "  tipcache purge route=staking_params",
	}
	admin := addAdminFlags(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		name, value, given := strings.Cut(args[0], "=")
		if name == "all" && !given {
			value = "true"
		}
		ctx, cancel := context.WithTimeout(c.Context(), purgeTimeout)
		defer cancel()
		text, err := admin.query(ctx, http.MethodPost, "/admin/purge?"+url.Values{name: {value}}.Encode(), "")
		if err != nil {
			return err
		}
		_, err = std.out.Write(text)
		return err
	}
	return c
}
