package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// parse reads the flags and returns the parts that were named, or all.
func (b *bench) parse(args []string) ([]part, error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	markdown := fs.Bool("markdown", false, "print GitHub tables")
	fs.IntVar(&b.rounds, "rounds", 5, "interleaved rounds of each measurement; figures are medians")
	fs.DurationVar(&b.seconds, "length", 2*time.Second, "length of one run of wrk")
	fs.BoolVar(&b.short, "short", false, "one short round of everything, to see that it works")
	fs.DurationVar(&b.churnFor, "churn-for", 10*time.Minute, "length of the part churn")
	connections := fs.String("connections", "16,64,256", "connections of wrk, one series each")
	fs.StringVar(&b.bin, "tipcache", "", "measure this `binary` in place of one built from the tree")
	fs.StringVar(&b.only, "cases", "", "measure only the cases of peers that match the `pattern`")
	fs.Usage = func() { usageText(fs) }
	if err := fs.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if b.short {
		b.rounds, b.seconds = 1, time.Second
	}
	if b.rounds < 1 || b.seconds < time.Second {
		return nil, fmt.Errorf("%w: at least one round, of at least a second: wrk counts in seconds", errUsage)
	}
	for _, n := range strings.Split(*connections, ",") {
		c, err := strconv.Atoi(n)
		if err != nil || c < 1 {
			return nil, fmt.Errorf("%w: -connections %s: not a number from 1 on", errUsage, n)
		}
		b.connections = append(b.connections, c)
	}
	b.out = &report{w: os.Stdout, markdown: *markdown}
	return choose(fs.Args())
}

func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts(), nil
	}
	byName := map[string]part{}
	for _, p := range parts() {
		byName[p.name] = p
	}
	var chosen []part
	for _, n := range names {
		p, ok := byName[n]
		if !ok {
			return nil, fmt.Errorf("%w: there is no part %q; see -h", errUsage, n)
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func usageText(fs *flag.FlagSet) {
	fmt.Fprint(fs.Output(), "deploy/bench/run [flags] [part ...]\n\nParts, all of them unless named:\n")
	for _, p := range parts() {
		fmt.Fprintf(fs.Output(), "  %-12s %s\n", p.name, p.about)
	}
	fmt.Fprint(fs.Output(), "\nFlags:\n")
	fs.PrintDefaults()
}
