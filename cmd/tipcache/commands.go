package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

// streams is where a command writes: results to out, logs and complaints to err.
type streams struct{ out, err io.Writer }

type command struct {
	name, args, summary string
	run                 func(ctx context.Context, args []string, std streams) error
}

func commands() []command {
	return []command{
		{"serve", "[flags]", "answer both interfaces from a node, a collection store and a metadata provider", serveCommand},
		{"demo", "[flags]", "serve with everything embedded: simulated chain, provider, Redis and store", demoCommand},
		{"devnet", "[flags]", "run the simulated node, CometBFT and metadata provider alone, for load tests", devnetCommand},
		{"check", "[flags]", "validate a configuration for serve and report every problem at once", checkCommand},
		{"health", "[flags]", "ask a running serve whether it is ready", healthCommand},
		{"config", "", "print every setting with its default and meaning", configCommand},
		{"key", "new NAME", "make an API key and the line that lets it in", keyCommand},
		{"explain", "[flags] URL", "say what a running serve would answer a request with now, and why", explainCommand},
		{"import", "--store URL FILE.jsonl", "load collections into a store, one JSON object a line", importCommand},
		{"index", "[flags]", "fill a store from the events of the chain's execution client", indexCommand},
		{"version", "", "print the version", versionCommand},
	}
}

// run is the whole program: it finds the command and runs it until it ends or
// ctx does.
func run(ctx context.Context, args []string, std streams) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		usage(std.out)
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] {
			err := c.run(ctx, args[1:], std)
			if errors.Is(err, flag.ErrHelp) {
				return nil
			}
			return err
		}
	}
	return fmt.Errorf("unknown command %q; run tipcache help for the list", args[0])
}

func usage(w io.Writer) {
	fmt.Fprint(w, "tipcache answers a staking chain's read queries from a cache that is fresh by the block.\n\nCommands:\n")
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(tw, "  %s\t%s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
	}
	tw.Flush()
	fmt.Fprint(w, "\nTry it:      tipcache demo\nBeside a node: tipcache serve\nFlags of a command: tipcache COMMAND -h\n")
}

func versionCommand(_ context.Context, _ []string, std streams) error {
	fmt.Fprintf(std.out, "tipcache %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// version is what the build recorded: a module version, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if rev := settings["vcs.revision"]; rev != "" {
		return rev
	}
	return "devel"
}
