// Package rig starts, watches and ends what a run of the benchmark needs: processes
// on free ports of 127.0.0.1, among them replicas of tipcache, and simulated
// chains within this process.
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

// ErrUsage is what ends the program with status 2.
var ErrUsage = errors.New("usage")

// A Part is something that can be measured.
type Part struct {
	Name  string
	About string
	Run   func(ctx context.Context, r *Rig) // fails by Check
}

// Options say how to measure.
type Options struct {
	figures.Report
	Dialect     devnet.Dialect // of the nodes; "" is that of Story
	Bin         string         // tipcache; "" builds it from the tree
	Parent      string         // an earlier tipcache, for part parent
	Rounds      int            // of each measurement
	Connections []int          // of wrk, one series each
	Cases       string         // pattern of the cases of peers; "" is all
	Short       bool           // see that everything works: figures mean nothing
}

// A Rig is what the parts of a run share.
type Rig struct {
	Options
	Dir string // temporary, removed by Close

	ending []func() // what Stop calls, in reverse
	broken []error  // what a part went on after
}

// AddFlags adds the flags that every command has.
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

// failed is what a part is ended with.
type failed struct{ error }

// Check ends the part where there is an error, as t.Fatal ends a test. It is for the
// goroutine that runs the part.
func Check(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// Broken keeps an error, if it is one, with which the part ends once all of it is done.
func (r *Rig) Broken(err error) { r.broken = append(r.broken, err) }

// Must is the value of a call that has not failed, and [Check] of one that has.
func Must[A any](value A, err error) A {
	Check(err)
	return value
}

// Try does something to its end, or up to what Check ends it with.
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

// findTools adds to the PATH where Debian keeps servers, the newest PostgreSQL first. The
// packages of all tools are in .ci/run.
func findTools() {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	dirs = append(dirs, "/usr/sbin", os.Getenv("PATH"))
	slices.Reverse(dirs)
	_ = os.Setenv("PATH", strings.Join(dirs, ":"))
}

// Measure runs parts one after another, and ends all that each has started.
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

// Sized is how much there is of something in a run, which may be a short one.
func Sized[A any](r *Rig, usual, short A) A {
	if r.Short {
		return short
	}
	return usual
}

// Progress says on standard error what of a part is done.
func (r *Rig) Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+" done\n", args...)
}

// New makes the directory and builds tipcache.
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
	if _, err := Output(ctx, "", "go", "build", "-o", r.Bin, "github.com/tipcache/tipcache/cmd/tipcache"); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// OnStop adds a function that Stop calls, the last that was added first.
func (r *Rig) OnStop(end func()) { r.ending = append(r.ending, end) }

// Stop ends what was started, the last first.
func (r *Rig) Stop() {
	for _, end := range slices.Backward(r.ending) {
		end()
	}
	r.ending = nil
}

// Close is Stop, and removes the directory.
func (r *Rig) Close() {
	r.Stop()
	_ = os.RemoveAll(r.Dir)
}

// Still is a chain of which no block comes.
var Still = devnet.Options{Seed: 1, Interval: -1}

// Chain starts a simulated chain.
func (r *Rig) Chain(o devnet.Options) *devnet.Devnet {
	o.Dialect = cmp.Or(o.Dialect, r.Dialect)
	d := Must(devnet.New(o))
	Check(d.Start())
	r.OnStop(func() { _ = d.Close() })
	return d
}

// File writes a file into the directory and returns its path.
func (r *Rig) File(name, text string) (path string) {
	path = filepath.Join(r.Dir, name)
	Check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Certificate makes a PEM file with a certificate and its key.
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
