// Package mutants finds faults that no test notices: it makes small changes to the product, one at a time, and runs the tests
// of the changed package. With -all, it then runs all tests of the module with the changes that survived. It prints a line for
// each change with the verdict. One that survived is harmful if a response, a header, a limit or a stored value differs; a
// person judges that.
//
//   - sites.go has the changes that a source file allows;
//   - try.go runs the tests of a package with a change. The tree stays as it is: go test -overlay reads the changed
//     file from elsewhere.
package mutants

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

type options struct {
	seed     uint64
	count    int
	packages *regexp.Regexp
	slowest  time.Duration
	all      bool // runs all tests with each change that survived the tests of its package
	out      io.Writer
}

// Command applies changes as the flags say.
func Command(ctx context.Context, args []string) error {
	o := options{packages: regexp.MustCompile(""), out: os.Stdout}
	fs := flag.NewFlagSet("mutants", flag.ContinueOnError)
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the random choice; the same seed and tree give the same changes")
	fs.IntVar(&o.count, "n", 100, "number of changes to try, without those that do not compile")
	fs.DurationVar(&o.slowest, "slowest", 30*time.Second, "leave out packages whose tests take longer")
	fs.BoolVar(&o.all, "all", false, "run all tests of the module with each change that survived those of its package")
	fs.Func("packages", "change only packages whose import path matches the `pattern`", func(text string) (err error) {
		o.packages, err = regexp.Compile(text)
		return err
	})
	if err := rig.Parse(fs, "bench mutants [flags]", args); err != nil {
		return err
	}
	return o.run(ctx, ".")
}

// run applies each change to the module in a directory and runs the tests. If ctx ends, it reports the changes so far.
func (o *options) run(ctx context.Context, dir string) error {
	packages, err := list(ctx, dir, o.packages)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // a draw
	verdicts := map[verdict]int{}
	tried := func() int { return verdicts[killed] + verdicts[elsewhere] + verdicts[survived] + verdicts[timeout] }
	defer func() {
		o.printf("%d tried: %d killed, %d killed by another package, %d survived, %d timeout; %d not compiled\n",
			tried(), verdicts[killed], verdicts[elsewhere], verdicts[survived], verdicts[timeout], verdicts[unbuilt])
	}()
	for next := 0; tried() < o.count; next++ {
		if len(packages) == 0 {
			return errors.New("no change left to try")
		}
		i := next % len(packages)
		if i == 0 {
			random.Shuffle(len(packages), func(i, j int) { packages[i], packages[j] = packages[j], packages[i] })
		}
		p := packages[i]
		if p.took == 0 {
			if err := p.prepare(ctx, o, random); err != nil {
				return err
			}
		}
		if len(p.left) == 0 {
			packages = slices.Delete(packages, i, i+1)
			continue
		}
		m := p.left[0]
		p.left = p.left[1:]
		v, err := m.try(ctx, o)
		if err != nil {
			return err
		}
		verdicts[v]++
		o.printf("%s %s %s: %s\n", m.place(), m.operator, v, m.change())
	}
	return nil
}

func (o *options) printf(format string, args ...any) { _, _ = fmt.Fprintf(o.out, format, args...) }

// A mutant is a source file with one change.
type mutant struct {
	*tested
	file   string
	source []byte
	edit
}

func (m *mutant) mutated() []byte {
	return bytes.Join([][]byte{m.source[:m.from], []byte(m.text), m.source[m.to:]}, nil)
}

// place returns the package, file and line of the change.
func (m *mutant) place() string {
	return fmt.Sprintf("%s/%s:%d", m.short(), m.file, 1+bytes.Count(m.source[:m.from], []byte("\n")))
}

// change returns the replaced text and its replacement, in one line.
func (m *mutant) change() string {
	return strings.Join(strings.Fields(string(m.source[m.from:m.to])+" -> "+m.text), " ")
}
