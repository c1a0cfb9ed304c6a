package main

import (
	"context"
	_ "embed" // for the template
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// An inquiry is the command line of explain.
type inquiry struct {
	admin        *adminFlags
	height, body string
	raw          bool
}

func explainCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "explain URL", Short: "report how a running tipcache serve would answer a request, and why", Args: operands,
		Long: "Report how a running tipcache serve would answer a request for a URL now, and why. The request is not sent.\n" +
			"With the name of an RPC or gRPC method instead of a URL, such as tx_search or cosmos.bank.v1beta1.Query/Balance, report its access rule.",
		Example: "  tipcache explain '/staking/validators?status=bonded'",
	}
	var q inquiry
	fs := c.Flags()
	q.admin = addAdminFlags(fs)
	fs.StringVar(&q.height, "height", "", "explain a request with X-Block-Height: `BLOCK`")
	fs.StringVar(&q.body, "body", "", "JSON `BODY` of a request for collections")
	fs.BoolVar(&q.raw, "json", false, "print the explanation as JSON")
	c.RunE = func(c *cobra.Command, args []string) error { return q.explain(c.Context(), args[0], std.out) }
	return c
}

func (q inquiry) explain(ctx context.Context, target string, w io.Writer) error {
	query := url.Values{"url": {target}, "height": {q.height}, "body": {q.body}}
	text, err := q.admin.query(ctx, explainTimeout, http.MethodGet, "/admin/explain?"+query.Encode(), "")
	if err != nil {
		return err
	}
	if q.raw {
		_, err := w.Write(text)
		return err
	}
	var e proxy.Explanation
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("the response is not an explanation: %w", err)
	}
	return printExplanation(w, e)
}

//go:embed explain.tmpl
var explanationText string

var explanation = template.Must(template.New("explanation").Funcs(template.FuncMap{
	"trim":      strings.TrimSpace,
	"unlimited": func(blocks int64) bool { return blocks == math.MaxInt64 },
}).Parse(explanationText))

// printExplanation prints one fact per line.
func printExplanation(w io.Writer, e proxy.Explanation) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return errors.Join(explanation.Execute(tw, e), tw.Flush())
}
