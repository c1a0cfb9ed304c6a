package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
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
		Use: "explain URL", Short: "report how a running serve would answer a request, and why", Args: operands,
		Long: "Report how a running serve would answer a request for a URL now, and why. The request is not sent.\n" +
			"With the name of an RPC or gRPC method instead of a URL, such as tx_search or cosmos.bank.v1beta1.Query/Balance, report its access rule.",
		Example: "  tipcache explain '/staking/validators?status=bonded'",
	}
	var q inquiry
	fs := c.Flags()
	q.admin = addAdminFlags(fs)
	fs.StringVar(&q.height, "height", "", "`BLOCK` in the X-Block-Height of the request")
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

// printExplanation prints one fact per line.
func printExplanation(w io.Writer, e proxy.Explanation) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(tw, "  "+name+"\t"+format+"\n", args...) }
	fmt.Fprintln(tw, e.Request)
	if e.Refusal != nil {
		line("refused", "%d %s", e.Refusal.Status, strings.TrimSpace(e.Refusal.Body))
	}
	if e.Access != "" {
		line("access", "%s", e.Access)
	}
	if e.Policy != nil {
		line("route", "%s, class %s", e.Route, e.Class)
		line("reads", "%s", e.Asks)
		line("key", "%s", e.Key)
		line("policy", "%s", policyText(e))
		line("tip", "%s", tipText(e))
		for _, n := range e.Nodes {
			line("node", "%s", nodeText(n))
		}
		line("memory", "%s", entryText(e.Memory))
		line("redis", "%s", redisText(e))
		line("fast lane", "%s", e.FastLane)
		if e.ReadAhead {
			line("ahead", "yes: read when the next block arrives, before a request")
		}
	}
	line("verdict", "%s", e.Verdict)
	line("why", "%s", e.Why)
	return tw.Flush()
}

func nodeText(n proxy.ExplainedNode) string {
	text := fmt.Sprintf("%s, blocks %d to %d", n.Name, max(n.Lowest, 1), n.Height)
	if n.Unfit != "" {
		text += "; it " + n.Unfit
	}
	return text
}

func policyText(e proxy.Explanation) string {
	p := e.Policy
	switch {
	case p.Immutable:
		return "never stale"
	case e.Tip > 0:
		onError := "no limit"
		if p.ErrorBlocks != math.MaxInt64 {
			onError = fmt.Sprint(p.ErrorBlocks)
		}
		return fmt.Sprintf("in blocks: fresh %d, stale %d, on error %s", p.FreshBlocks, p.StaleBlocks, onError)
	default:
		return fmt.Sprintf("in seconds: fresh %s, stale %s, on error %s", p.Fresh, p.Stale, p.StaleIfError)
	}
}

func tipText(e proxy.Explanation) string {
	text := blockOr(e.Tip, "unknown, freshness is in seconds")
	if e.Tip > 0 && e.Class == "collections" {
		text += ", of the execution chain"
	}
	return text
}

func entryText(e *proxy.ExplainedEntry) string {
	if e == nil {
		return "nothing"
	}
	text := fmt.Sprintf("%s, block %s, read %s ago, status %d, %d bytes, %s", e.State, blockOr(e.Height, "none"), e.Age, e.Status, e.Bytes, e.ETag)
	if e.Expires != "" {
		text += ", expires in " + e.Expires
	}
	if e.Dropped != "" {
		text += ", dropped in " + e.Dropped
	}
	return text
}

func redisText(e proxy.Explanation) string {
	switch {
	case e.RedisState == "off":
		return "off"
	case e.RedisError != "":
		return e.RedisState + ": " + e.RedisError
	case e.Lease != "":
		return entryText(e.Redis) + "; another replica reads the upstream, lease " + e.Lease
	default:
		return entryText(e.Redis)
	}
}

func blockOr(height int64, otherwise string) string {
	if height == 0 {
		return otherwise
	}
	return fmt.Sprint(height)
}
