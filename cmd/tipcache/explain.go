package main

import (
	_ "embed" // for the template
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/proxy"
)

// explainTimeout is a second longer than the timeout of the admin listener.
const explainTimeout = 6 * time.Second

func explainCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "explain URL", Short: "report how a running tipcache serve would answer a request, and why", Args: operands,
		Long: "Report how a running tipcache serve would answer a request for a URL now, and why. The request is not sent.\n" +
			"With the name of an RPC or gRPC method instead of a URL, such as tx_search or cosmos.bank.v1beta1.Query/Balance, report its access rule.",
		Example: "  tipcache explain '/staking/validators?status=bonded'",
	}
	admin := addAdminFlags(c.Flags())
	height := c.Flags().String("height", "", "explain a request with X-Block-Height: `BLOCK`")
	body := c.Flags().String("body", "", "JSON `BODY` of a request for collections")
	raw := c.Flags().Bool("json", false, "print the explanation as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"url": args, "height": {*height}, "body": {*body}}
		text, err := admin.query(c.Context(), explainTimeout, http.MethodGet, "/admin/explain?"+query.Encode(), "")
		if err != nil {
			return err
		}
		if *raw {
			_, err := std.out.Write(text)
			return err
		}
		var e proxy.Explanation
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("the response is not an explanation: %w", err)
		}
		tw := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0) // one fact per line
		return errors.Join(explanation.Execute(tw, e), tw.Flush())
	}
	return c
}

//go:embed explain.tmpl
var explanationText string

var explanation = template.Must(template.New("explanation").Funcs(template.FuncMap{
	"trim":      strings.TrimSpace,
	"unlimited": func(blocks int64) bool { return blocks == math.MaxInt64 },
}).Parse(explanationText))
