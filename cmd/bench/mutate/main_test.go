package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package p

func f(a, b int) bool {
	if a < b && a%2 == 0 {
		return false
	}
	b = min(a-1, b)
	return a != b
}
`

func parsed(t *testing.T, text string) *file {
	t.Helper()
	f := &file{path: "p.go", name: "p.go", text: []byte(text), set: token.NewFileSet()}
	var err error
	if f.tree, err = parser.ParseFile(f.set, f.path, f.text, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEachSmallFaultIsACandidate(t *testing.T) {
	want := []string{
		"p.go:7  b = min(a-1, b)  ->  nothing",
		"p.go:4  if a < b && a%2 == 0  ->  if !(a < b && a%2 == 0)",
		"p.go:4  if a < b && a%2 == 0  ->  if false",
		"p.go:4  a < b && a%2 == 0  ->  a%2 == 0",
		"p.go:4  a < b && a%2 == 0  ->  a < b",
		"p.go:4  a < b  ->  a <= b",
		"p.go:4  a%2 == 0  ->  a%2 != 0",
		"p.go:5  return false  ->  the contrary of false",
		"p.go:7  min(a-1, b)  ->  max(a-1, b)",
		"p.go:7  a-1  ->  a",
		"p.go:8  a != b  ->  a == b",
	}
	var got []string
	for _, m := range candidates([]*file{parsed(t, source)}) {
		got = append(got, m.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("candidates:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTestsNoticeTheMutantsThatTheyCover(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the go command")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module p\n\ngo 1.26\n",
		"p.go":      source,
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {\n\tif f(2, 3) || !f(3, 3) || !f(4, 4) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-seed", "4", "-n", "3", "."}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"killed    p.go:4  a%2 == 0  ->  a%2 != 0",
		"SURVIVED  p.go:4  a < b && a%2 == 0  ->  a < b\n",
		"3 of 11 candidates tried, 1 survived",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
