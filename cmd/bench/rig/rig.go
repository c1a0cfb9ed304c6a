// Package rig manages the processes of a benchmark run, such as replicas of tipcache, on free ports of 127.0.0.1, and
// simulated chains within this process.
package rig

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// ErrUsage makes the program exit with status 2.
var ErrUsage = errors.New("usage")

// A Part is a benchmark.
type Part struct {
	Name  string
	About string
	Run   func(ctx context.Context, r *Rig) // fails by Check
}

// Options configure a run.
type Options struct {
	figures.Report
	Dialect     devnet.Dialect // of the nodes; "" is that of Story
	Bin         string         // tipcache; "" builds it from the tree
	Parent      string         // an earlier tipcache, for part parent
	Rounds      int            // of each measurement
	Connections []int          // of wrk, one series each
	Cases       string         // pattern of the cases; "" for all
	Picture     string         // file for the picture of part probe; "" for none
	Short       bool           // only checks that everything works; the figures mean nothing
}

// A Rig holds the processes of a run.
type Rig struct {
	Options
	Dir string // temporary, removed by Close

	ending []func() // called by Stop in reverse order
	broken []error  // errors that did not end the part
}

// AddFlags adds the flags of every command.
func (o *Options) AddFlags(fs *flag.FlagSet) {
	o.Report = figures.Report{W: os.Stdout}
	fs.StringVar((*string)(&o.Dialect), "dialect", string(devnet.Story), "of the nodes, in faults: story or cosmos")
	fs.StringVar(&o.Bin, "tipcache", "", "run this `binary` in place of one built from the tree")
}

// Parse reads the flags of a command. -h prints an introduction before them.
func Parse(fs *flag.FlagSet, introduction string, args []string) error {
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), introduction, "\n\nFlags:\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return errors.Join(ErrUsage, err)
	}
	return nil
}

// Choose returns the things with these names, or all if no name is given.
func Choose[A any](kind string, all []A, names []string, nameOf func(A) string) (chosen []A, err error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, n := range names {
		named := slices.DeleteFunc(slices.Clone(all), func(a A) bool { return nameOf(a) != n })
		if len(named) == 0 {
			return nil, fmt.Errorf("%w: there is no %s %q; see -h", ErrUsage, kind, n)
		}
		chosen = append(chosen, named...)
	}
	return chosen, nil
}

// failed is the panic value of Check.
type failed struct{ error }

// Check ends the part if err is not nil, as t.Fatal ends a test. Only the goroutine that runs the part may call it.
func Check(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// Broken records an error, which fails the part once it has finished. nil is ignored.
func (r *Rig) Broken(err error) { r.broken = append(r.broken, err) }

// Must returns value, after it has called [Check] with err.
func Must[A any](value A, err error) A {
	Check(err)
	return value
}

// Try calls do and returns the error of Check that ended it, if any.
func Try(do func()) (err error) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case failed:
			err = end.error
		default:
			panic(end)
		}
	}()
	do()
	return nil
}

// findTools adds Debian's directories of servers to the PATH, the newest PostgreSQL first. .ci/run lists the packages of
// all tools.
func findTools() {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	dirs = append(dirs, "/usr/sbin", os.Getenv("PATH"))
	slices.Reverse(dirs)
	_ = os.Setenv("PATH", strings.Join(dirs, ":"))
}

// Measure runs parts one after another, and stops the processes of each.
func Measure(ctx context.Context, o Options, parts ...Part) error {
	findTools()
	r, err := New(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, p := range parts {
		running, cancel := context.WithCancel(ctx)
		err := Try(func() { p.Run(running, r) })
		cancel()
		r.Stop()
		if err = errors.Join(append(r.broken, err)...); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// Sized returns usual, or short in a short run.
func Sized[A any](r *Rig, usual, short A) A {
	if r.Short {
		return short
	}
	return usual
}

// Progress reports on standard error that a step is done.
func (r *Rig) Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+" done\n", args...)
}

// New creates the directory and builds tipcache.
func New(ctx context.Context, o Options) (r *Rig, err error) {
	r = &Rig{Options: o}
	if r.Dir, err = os.MkdirTemp("", "tipcache-bench-"); err != nil {
		return nil, err
	}
	if r.Bin != "" {
		r.Bin, err = filepath.Abs(r.Bin)
		return r, err
	}
	r.Bin = filepath.Join(r.Dir, "tipcache")
	if _, err := Output(ctx, "", "go", "build", "-tags", "nomsgpack", "-o", r.Bin, "github.com/tipcache/tipcache/cmd/tipcache"); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// OnStop adds a function that Stop calls, in reverse order.
func (r *Rig) OnStop(end func()) { r.ending = append(r.ending, end) }

// Stop ends everything that was started, in reverse order.
func (r *Rig) Stop() {
	for _, end := range slices.Backward(r.ending) {
		end()
	}
	r.ending = nil
}

// Close calls Stop and removes the directory.
func (r *Rig) Close() {
	r.Stop()
	_ = os.RemoveAll(r.Dir)
}

// Still configures a chain that makes no blocks.
var Still = devnet.Options{Seed: 1, Interval: -1}

// Chain starts a simulated chain. No connection takes a port of its node during an outage.
func (r *Rig) Chain(o devnet.Options) *devnet.Devnet {
	o.Dialect = cmp.Or(o.Dialect, r.Dialect)
	o.NodeAddr, o.CometAddr, o.GRPCAddr = FreeAddr(), FreeAddr(), FreeAddr()
	d := Must(devnet.New(o))
	Check(d.Start())
	r.OnStop(func() { _ = d.Close() })
	return d
}

// AddNode adds a node to a simulated chain. As in Chain, no connection takes its ports during an outage.
func (r *Rig) AddNode(d *devnet.Devnet) *devnet.Node {
	return Must(d.AddNode(FreeAddr(), FreeAddr(), FreeAddr()))
}

// File writes a file into the directory and returns its path.
func (r *Rig) File(name, text string) (path string) {
	path = filepath.Join(r.Dir, name)
	Check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Certificate creates a PEM file with a certificate and its key.
func (r *Rig) Certificate(ctx context.Context) (file string) {
	file = filepath.Join(r.Dir, "cert.pem")
	_ = Must(Output(ctx, "", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
		"-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file, "-out", file))
	return file
}

// CasesOf returns the cases of a part that match -cases.
func CasesOf[A fmt.Stringer](r *Rig, all []A) []A {
	wanted := Must(regexp.Compile(r.Cases))
	chosen := slices.DeleteFunc(slices.Clone(all), func(c A) bool { return !wanted.MatchString(c.String()) })
	if len(chosen) == 0 {
		Check(fmt.Errorf("%w: -cases %s: there is no such case", ErrUsage, r.Cases))
	}
	return chosen
}
