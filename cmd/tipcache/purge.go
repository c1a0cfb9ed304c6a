package main

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// purgeTimeout is a second longer than the timeout of the admin listener.
const purgeTimeout = 61 * time.Second

func purgeCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "purge SELECTION", Short: "remove entries from the caches of all replicas, and from Redis", Args: operands,
		Long: "Ask a running tipcache serve to remove entries from its memory, from Redis, and from all replicas with the same Redis.\n" +
			"SELECTION is route=NAME, method=SERVICE/METHOD, prefix=KEY-PREFIX, address=ACCOUNT or all.",
		Example: "  tipcache purge route=staking_params",
	}
	admin := addAdminFlags(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		name, value, given := strings.Cut(args[0], "=")
		if name == "all" && !given {
			value = "true"
		}
		text, err := admin.query(c.Context(), purgeTimeout, http.MethodPost, "/admin/purge?"+url.Values{name: {value}}.Encode(), "")
		if err != nil {
			return err
		}
		_, err = std.out.Write(text)
		return err
	}
	return c
}
