// Package mutants finds faults that no test notices: it makes small changes to the product, one at a time, and runs
// the tests of the changed package. A change that they let pass is printed. It is harmful if a response, a header, a
// limit or a stored value differs; a person judges that.
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
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

type options struct {
	seed     uint64
	count    int
	packages *regexp.Regexp
	slowest  time.Duration
	out      io.Writer
}

// Command tries changes, as its flags say.
func Command(ctx context.Context, args []string) error {
	o := options{packages: regexp.MustCompile(""), out: os.Stdout}
	fs := flag.NewFlagSet("mutants", flag.ContinueOnError)
	fs.Uint64Var(&o.seed, "seed", 1, "of the draw: one seed draws the same changes of the same tree")
	fs.IntVar(&o.count, "n", 100, "changes to try, those that do not compile not counted")
	fs.DurationVar(&o.slowest, "slowest", 30*time.Second, "leave out packages whose tests take longer")
	fs.Func("packages", "draw only from the packages whose import path matches the `pattern`", func(text string) (err error) {
		o.packages, err = regexp.Compile(text)
		return err
	})
	introduction := "bench mutants [flags]\n\nOperators:"
	for _, op := range operators {
		introduction += fmt.Sprintf("\n  %-12s %s", op[0], op[1])
	}
	if err := rig.Parse(fs, introduction, args); err != nil {
		return err
	}
	return o.run(ctx, ".")
}

// run tries changes of the module in a directory.
func (o *options) run(ctx context.Context, dir string) error {
	packages, err := list(ctx, dir, o.packages)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // a draw
	tried, survivors := 0, 0
	for next := 0; tried < o.count; next++ {
		if next%max(1, len(packages)) == 0 {
			random.Shuffle(len(packages), func(i, j int) { packages[i], packages[j] = packages[j], packages[i] })
		}
		i := next % max(1, len(packages))
		if len(packages) == 0 {
			return errors.New("no change is left to try")
		}
		p := packages[i]
		m, ok := p.draw(random)
		if !ok || !p.measure(ctx, o) {
			packages = append(packages[:i], packages[i+1:]...)
			continue
		}
		began := time.Now()
		verdict, err := m.try(ctx)
		switch {
		case err != nil:
			return err
		case verdict == unbuilt:
			continue
		case verdict == survived:
			survivors++
		}
		tried++
		o.printf("%d/%d %-8s %s %s %v\n", tried, o.count, verdict, m.place(), m.operator, time.Since(began).Round(time.Second/10))
		if verdict == survived {
			o.printf("%s", m.diff())
		}
	}
	o.printf("%d of %d changes survived the tests of their package\n", survivors, tried)
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

// place is the package's file and line.
func (m *mutant) place() string {
	return fmt.Sprintf("%s/%s:%d", m.short(), m.file, 1+bytes.Count(m.source[:m.from], []byte("\n")))
}

// diff shows the lines that the change touches, before and after.
func (m *mutant) diff() string {
	start := bytes.LastIndexByte(m.source[:m.from], '\n') + 1
	after := m.mutated()
	return prefixed("-", lines(m.source, start, m.to)) + prefixed("+", lines(after, start, m.from+len(m.text)))
}

// lines are those from start to the end of the one with the offset.
func lines(text []byte, start, offset int) []byte {
	if end := bytes.IndexByte(text[offset:], '\n'); end >= 0 {
		return text[start : offset+end]
	}
	return text[start:]
}

func prefixed(mark string, text []byte) (out string) {
	for line := range bytes.Lines(text) {
		out += "    " + mark + string(bytes.TrimRight(line, "\n")) + "\n"
	}
	return out
}
