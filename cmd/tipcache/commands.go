package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/proxy/web"
)

// streams are the outputs of a command: results go to out, logs and errors to err.
type streams struct{ out, err io.Writer }

const about = `tipcache is a caching proxy for the read API of a chain's node. It measures freshness in blocks.

Try it:         tipcache demo
Next to a node: tipcache serve
A first file:   tipcache config --example > tipcache.yaml`

// newRoot returns the root command.
func newRoot(std streams) *cobra.Command {
	version := fmt.Sprintf("tipcache %s (%s, %s/%s)", parts.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	root := &cobra.Command{
		Use: "tipcache", Long: about,
		SilenceErrors: true, SilenceUsage: true, // errors are reported once, by main
	}
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(suggestFlag)
	root.AddCommand(
		serveCommand(std), demoCommand(std), devnetCommand(std), checkCommand(std), healthCommand(std),
		configCommand(std), openAPICommand(std), keyCommand(std), explainCommand(std), purgeCommand(std), importCommand(std), indexCommand(std), probeCommand(std),
		&cobra.Command{Use: "version", Short: "print the version", Args: operands, RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.out, version)
			return err
		}},
	)
	for _, c := range append(root.Commands(), root) {
		c.Version = version
		c.SetVersionTemplate("{{.Version}}\n")
		c.Flags().SortFlags = false
	}
	return root
}

func run(ctx context.Context, args []string, std streams) error {
	root := newRoot(std)
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	return root.ExecuteContext(ctx)
}

// suggestFlag adds the most similar flag to the error of an unknown one.
func suggestFlag(c *cobra.Command, err error) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("%w%s", err, web.DidYouMean(unknown.GetSpecifiedName(), names))
}

// operands checks that a command has the operands of its usage line.
func operands(c *cobra.Command, args []string) error {
	wanted := strings.Fields(c.Use)[1:]
	if len(args) < len(wanted) {
		return fmt.Errorf("%s is missing: %s", wanted[len(args)], c.UseLine())
	}
	if len(args) > len(wanted) {
		return fmt.Errorf("unexpected argument %q: %s", args[len(wanted)], c.UseLine())
	}
	return nil
}
