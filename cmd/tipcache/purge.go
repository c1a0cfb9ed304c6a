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
		Use: "purge SELECTION", Short: "remove entries from the cache of a running serve, of all replicas and of Redis", Args: operands,
		Long: "Remove entries from the cache of a running serve, of all replicas and of Redis.\n" +
			"SELECTION is one of route=NAME, method=SERVICE/METHOD, prefix=KEY, address=0x... and all.",
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
