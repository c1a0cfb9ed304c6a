package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variable holds the number of the mutant that is on.
const variable = "TIPCACHE_MUTANT"

const switches = `package %s

import "os"

var mutantOn = os.Getenv("` + variable + `")

func mutant(n string) bool { return n == mutantOn }

func onMutant[T any](n string, changed, right T) T {
	if mutant(n) {
		return changed
	}
	return right
}
`

// suite is the compiled tests of a package.
type suite struct {
	dir, binary, pattern string
}

// run says whether the tests fail while mutant n is on, and what they say.
func (s suite) run(ctx context.Context, n int, limit time.Duration) (noticed bool, output string) {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, s.binary, "-test.short", "-test.failfast", "-test.run="+s.pattern, "-test.timeout="+limit.String())
	c.Dir, c.Env = s.dir, append(os.Environ(), variable+"="+strconv.Itoa(n))
	out, err := c.CombinedOutput()
	return err != nil, string(out)
}

var position = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// build compiles the tests with the first count candidates that compile.
func build(ctx context.Context, work string, packages []string, files []*file, all []mutation, count int) ([]suite, []mutation, error) {
	for {
		chosen := all[:min(count, len(all))]
		overlay, err := write(work, files, chosen)
		if err != nil {
			return nil, nil, err
		}
		if out, err := tool(ctx, "build", "-gcflags=-e", "-overlay", overlay, packages[0]); err != nil {
			if all = without(all, out); len(all) == 0 || !position.Match(out) {
				return nil, nil, err
			}
			continue
		}
		suites, err := compile(ctx, work, overlay, packages)
		return suites, chosen, err
	}
}

// without leaves out the candidates on lines that the compiler complains of.
func without(all []mutation, complaints []byte) []mutation {
	bad := map[string]bool{}
	for _, m := range position.FindAllSubmatch(complaints, -1) {
		bad[filepath.Base(string(m[1]))+":"+string(m[2])] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(m mutation) bool {
		return bad[filepath.Base(m.file.path)+":"+strconv.Itoa(m.line)]
	})
}

func compile(ctx context.Context, work, overlay string, packages []string) (suites []suite, err error) {
	for i, p := range packages {
		path, pattern, _ := strings.Cut(p, "=")
		dir, err := tool(ctx, "list", "-f", "{{.Dir}}", path)
		if err != nil {
			return nil, err
		}
		s := suite{strings.TrimSpace(string(dir)), filepath.Join(work, fmt.Sprintf("%d.test", i)), pattern}
		if _, err := tool(ctx, "test", "-c", "-o", s.binary, "-overlay", overlay, path); err != nil {
			return nil, err
		}
		if _, err := os.Stat(s.binary); err == nil { // none without tests
			suites = append(suites, s)
		}
	}
	if len(suites) == 0 {
		return nil, errors.New("no package has tests")
	}
	return suites, nil
}

// write puts the changed files below work, and returns the overlay that names them.
func write(work string, files []*file, chosen []mutation) (overlay string, err error) {
	replace := map[string]string{}
	put := func(path string, text []byte) error {
		replace[path] = filepath.Join(work, filepath.Base(path))
		return os.WriteFile(replace[path], text, 0o600)
	}
	for _, f := range files {
		if err := put(f.path, f.mutated(chosen)); err != nil {
			return "", err
		}
	}
	first := files[0]
	if err := put(filepath.Join(filepath.Dir(first.path), "mutant_switches.go"), fmt.Appendf(nil, switches, first.tree.Name)); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(work, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// mutated is the text with the switches of all mutants that are of this file. Lines stay as they are.
func (f *file) mutated(chosen []mutation) []byte {
	type insertion struct {
		at, width, n int
		opens        bool
		text         string
	}
	var all []insertion
	for i, m := range chosen {
		if m.file == f {
			number := strconv.Quote(strconv.Itoa(i + 1))
			put := func(s string) string {
				return strings.ReplaceAll(strings.ReplaceAll(s, "%d", number), "%%", "%")
			}
			all = append(all, insertion{m.start, m.end - m.start, i, true, put(m.before)}, insertion{m.end, m.end - m.start, i, false, put(m.after)})
		}
	}
	// Where two meet, what ends comes before what begins, and the wider one is outside.
	slices.SortFunc(all, func(a, b insertion) int {
		if a.at != b.at || a.opens != b.opens {
			return cmp.Or(cmp.Compare(a.at, b.at), map[bool]int{true: 1, false: -1}[a.opens])
		}
		if a.opens {
			return cmp.Or(cmp.Compare(b.width, a.width), cmp.Compare(a.n, b.n))
		}
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(b.n, a.n))
	})
	var out bytes.Buffer
	from := 0
	for _, in := range all {
		out.Write(f.text[from:in.at])
		out.WriteString(in.text)
		from = in.at
	}
	out.Write(f.text[from:])
	return out.Bytes()
}

// tool runs the go command; what it says is in the error, too.
func tool(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return out, err
}
