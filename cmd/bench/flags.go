package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// parse reads the flags and returns the parts that were named, or all.
func parse(args []string) (o rig.Options, chosen []rig.Part, err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.AddFlags(fs)
	fs.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds of each measurement; figures are medians")
	fs.DurationVar(&o.Length, "length", 2*time.Second, "length of one run of wrk")
	fs.BoolVar(&o.Short, "short", false, "one short round of everything, to see that it works")
	fs.DurationVar(&o.For, "for", 10*time.Minute, "length of churn")
	connections := fs.String("connections", "16,64,256", "connections of wrk, one series each")
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
	chosen, err = rig.Choose("part", parts(), fs.Args(), func(p rig.Part) string { return p.Name })
	return o, chosen, err
}

func usage(fs *flag.FlagSet) {
	fmt.Fprint(fs.Output(), "bench [flags] [part ...]\nbench drive [flags]\nbench faults [flags] [scenario ...]\n\nParts, all of them unless named:\n")
	for _, p := range parts() {
		fmt.Fprintf(fs.Output(), "  %-12s %s\n", p.Name, p.About)
	}
	fmt.Fprint(fs.Output(), "\nFlags:\n")
	fs.PrintDefaults()
}
