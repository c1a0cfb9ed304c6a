package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// parse reads the flags and returns the parts that were named, or all.
func parse(args []string) (o rig.Options, chosen []rig.Part, err error) {
	o.Report = figures.Report{W: os.Stdout}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds of each measurement; figures are medians")
	fs.DurationVar(&o.Length, "length", 2*time.Second, "length of one run of wrk")
	fs.BoolVar(&o.Short, "short", false, "one short round of everything, to see that it works")
	fs.DurationVar(&o.For, "for", 10*time.Minute, "length of churn")
	connections := fs.String("connections", "16,64,256", "connections of wrk, one series each")
	fs.StringVar((*string)(&o.Dialect), "dialect", string(devnet.Story), "of the nodes, in herd and freshness: story or cosmos")
	fs.StringVar(&o.Bin, "tipcache", "", "measure this `binary` in place of one built from the tree")
	fs.StringVar(&o.Cases, "cases", "", "measure only the cases of peers that match the `pattern`")
	fs.Usage = func() { usage(fs) }
	if err := fs.Parse(args); err != nil {
		return o, nil, errors.Join(rig.ErrUsage, err)
	}
	if o.Short {
		o.Rounds, o.Length = 1, time.Second
	}
	if o.Rounds < 1 || o.Length < time.Second {
		return o, nil, fmt.Errorf("%w: at least one round, of at least a second: wrk counts in seconds", rig.ErrUsage)
	}
	for n := range strings.SplitSeq(*connections, ",") {
		c, err := strconv.Atoi(n)
		if err != nil || c < 1 {
			return o, nil, fmt.Errorf("%w: -connections %s: not a number from 1 on", rig.ErrUsage, n)
		}
		o.Connections = append(o.Connections, c)
	}
	chosen, err = choose(fs.Args())
	return o, chosen, err
}

func choose(names []string) ([]rig.Part, error) {
	all := parts()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []rig.Part
	for _, n := range names {
		i := slices.IndexFunc(all, func(p rig.Part) bool { return p.Name == n })
		if i < 0 {
			return nil, fmt.Errorf("%w: there is no part %q; see -h", rig.ErrUsage, n)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func usage(fs *flag.FlagSet) {
	fmt.Fprint(fs.Output(), "bench [flags] [part ...]\nbench drive [flags]\nbench faults [flags] [scenario ...]\n\nParts, all of them unless named:\n")
	for _, p := range parts() {
		fmt.Fprintf(fs.Output(), "  %-12s %s\n", p.Name, p.About)
	}
	fmt.Fprint(fs.Output(), "\nFlags:\n")
	fs.PrintDefaults()
}
