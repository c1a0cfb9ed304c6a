package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/probe"
)

// A statusError is an error with its own exit status of the process.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// cannotMeasure is the exit status of probe after a wrong use, or with too few samples.
const cannotMeasure = 2

func probeCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "probe URL...", Short: "measure how current the API of a node, of tipcache or of any server in front of nodes is",
		Long: "Measure from outside how current endpoints of one chain are. An endpoint is the base URL of a REST API of Story or of the\n" +
			"Cosmos SDK, or of a CometBFT RPC, optionally as NAME=URL. It does not need to be a tipcache.\n\n" +
			"An endpoint is behind if a response names an earlier block than another response had named before the request was sent.\n\n" +
			"The exit status is 0 within the limits, or without limits; 1 if an endpoint exceeds them; and 2 after a wrong use, if an endpoint\n" +
			"cannot be reached at the start, or if an endpoint has fewer than 100 samples for a limit.",
		Example: "  tipcache probe http://127.0.0.1:1317 http://127.0.0.1:8080 --svg probe.svg\n" +
			"  tipcache probe ours=https://rest.example.com theirs=https://rest.example.org --max-behind 1 --max-failures 0.01",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return statusError{fmt.Errorf("URL is missing: %s", c.UseLine()), cannotMeasure}
			}
			return nil
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return statusError{suggestFlag(c, err), cannotMeasure} })
	o, output, limits, fs := probe.Options{}.WithDefaults(), probeOutput{std: std}, probe.Limits{}, c.Flags()
	fs.DurationVar(&o.For, "for", o.For, "how long to measure")
	fs.Float64Var(&o.Rate, "rate", o.Rate, "reads per second and endpoint")
	fs.StringVar(&o.Tip, "tip", "", "`URL` of a server that also names new blocks, and is not measured")
	fs.StringVar(&o.Against, "against", "", "`URL` of a trusted node: read a part of the samples again from it, at the same block, and compare")
	fs.StringVar(&o.ChainID, "chain-id", "", "chain `ID` of servers whose API does not name it, such as REST of Story, if there are several servers")
	fs.StringArrayVar(&o.Paths, "path", nil, "REST `path` with its query to read instead of the built-in ones. May be repeated")
	fs.BoolVar(&output.json, "json", false, "print the results as JSON")
	fs.StringVar(&output.svg, "svg", "", "also write a picture of the blocks behind over time to `FILE`")
	fs.Int64Var(&limits.MaxBehind, "max-behind", -1, "exit with status 1 if more than 1 % of an endpoint's samples are more than `N` blocks behind; -1 for no limit")
	fs.Float64Var(&limits.MaxFailures, "max-failures", -1, "exit with status 1 if more than this `share` of an endpoint's samples fail, 0 to 1; -1 for no limit")
	c.RunE = func(c *cobra.Command, args []string) error {
		o.Endpoints = args
		return runProbe(c.Context(), o, limits, output)
	}
	return c
}

func runProbe(ctx context.Context, o probe.Options, limits probe.Limits, output probeOutput) error {
	if parts.IsTerminal(output.std.err) {
		o.Progress = output.std.err
	}
	if o.For == 0 || o.Rate == 0 { // probe.Options takes zero for the default
		return statusError{errors.New("--for and --rate must be above 0"), cannotMeasure}
	}
	if !(limits.MaxFailures <= 1) { // NaN, too
		return statusError{fmt.Errorf("--max-failures is %v, want a share of 0 to 1", limits.MaxFailures), cannotMeasure}
	}
	report, err := probe.Run(ctx, o)
	if err == nil {
		err = output.write(report)
	}
	if err != nil {
		return statusError{err, cannotMeasure}
	}
	if err = report.Check(limits); errors.Is(err, probe.ErrFewSamples) {
		return statusError{err, cannotMeasure}
	}
	return err
}

// probeOutput says how to print a report.
type probeOutput struct {
	std  streams
	json bool
	svg  string // "" for no picture
}

func (p probeOutput) write(report *probe.Report) error {
	err := p.print(report)
	if err == nil && p.svg != "" {
		err = writeTo(p.svg, report.WritePicture)
	}
	return err
}

func (p probeOutput) print(report *probe.Report) error {
	if p.json {
		e := json.NewEncoder(p.std.out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	_, noColor := os.LookupEnv("NO_COLOR")
	return report.WriteTable(p.std.out, parts.IsTerminal(p.std.out) && !noColor)
}

// writeTo writes a file.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
