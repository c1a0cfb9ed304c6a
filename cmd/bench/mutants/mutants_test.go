package mutants

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEachOperatorEditsItsExpressions(t *testing.T) {
	const source = `package p

func f(x any) (int, error) {
	a, err := 1, g()
	if err != nil && a < min(a, b) {
		return a, err
	}
	for {
		a++
		a = a - 2
		slog.Info("no change", "n", 7)
		h(true)
		continue
	}
}
`
	edits := expect.Value(editsOf("p.go", []byte(source)))(t)
	var got []string
	for _, e := range edits {
		got = append(got, e.operator+": "+source[e.from:e.to]+" to "+e.text)
	}
	want := []string{
		"arithmetic: ++ to --", "arithmetic: - to +", "bool: true to false", "bound: min to max", "compare: != to ==", "compare: < to <=",
		"constant: 1 to 2", "constant: 2 to 3", "drop: a = a - 2 to ", "drop: h(true) to ", "jump: continue to break", "logic: && to ||",
		"negate: err != nil && a < min(a, b) to !(err != nil && a < min(a, b))", "swallow: err to nil",
	}
	slices.Sort(got)
	expect.NoDiff(t, got, want, "edits")
}

func TestSurvivingChangesAreReportedAndSourceStaysUnchanged(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n",
		"m.go": `package m

// Held is tested, Used is tested by another package, and Missed is not.
func Held(a int) bool { return a == 0 }

func Missed(a int) bool { return a == 0 }

func Used(a int) bool { return a == 0 }

func Count(a int) { for ; a > 0; a-- { } }

func First(a [1]int) int { return a[0] }

func Vetted(a int) bool { return a != 3 && a != 4 }
`,
		"m_test.go":           "package m\n\nimport \"testing\"\n\nfunc TestHeld(t *testing.T) {\n\tCount(3)\n\tif !Held(0) || Held(1) {\n\t\tt.Fail()\n\t}\n}\n",
		"other/other_test.go": "package other\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m\"\n)\n\nfunc TestUsed(t *testing.T) {\n\tif !m.Used(0) {\n\t\tt.Fail()\n\t}\n}\n",
		"bare/one.go":         "package bare\n\n// Bare has no tests.\nfunc Bare() bool { return true }\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var out bytes.Buffer
	o := options{seed: 1, count: 100, packages: regexp.MustCompile(""), slowest: 2 * time.Second, all: true, out: &out}
	if err := o.run(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no change left") {
		t.Errorf("error = %v, want that no change left", err)
	}
	for text, times := range map[string]int{
		"/m.go:4 compare killed: == -> !=\n": 1, "/m.go:4 constant killed: 0 -> 1\n": 1,
		"/m.go:6 compare survived: == -> !=\n": 1, "/m.go:6 constant survived: 0 -> 1\n": 1,
		"/m.go:8 compare killed by another package: == -> !=\n": 1, "/m.go:8 constant killed by another package: 0 -> 1\n": 1,
		"/m.go:10 arithmetic timeout: -- -> ++\n": 1, "/m.go:12 constant not compiled: 0 -> 1\n": 1,
		"/m.go:14 logic survived: && -> ||\n":                                                      1, // go vet would refuse it
		"14 tried: 2 killed, 2 killed by another package, 9 survived, 1 timeout; 1 not compiled\n": 1, "bare": 0,
	} {
		if got := strings.Count(out.String(), text); got != times {
			t.Errorf("lines with %q = %d, want %d:\n%s", text, got, times, &out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "m.go")); err != nil || string(got) != files["m.go"] {
		t.Errorf("source = %q, %v; want it unchanged", got, err)
	}
}
