// Command overlay writes copies of the product's files into a directory, in which each function notes that it is entered,
// and prints the file for the flag -overlay of the go command.
//
//	overlay DIRECTORY
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

var (
	product = []string{"cache", "cmd/tipcache", "config", "proxy", "upstream"}
	others  = regexp.MustCompile(`^(upstream/devnet|cmd/tipcache/demo)/|_test\.go$`) // simulators and tests
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay DIRECTORY")
		os.Exit(2)
	}
	if err := rig.Try(func() { write(os.Args[1]) }); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

func write(dir string) {
	replace := map[string]string{}
	for _, folder := range product {
		rig.Check(filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || others.MatchString(file) {
				return err
			}
			replace[file] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
			return os.WriteFile(replace[file], noting(file), 0o600)
		}))
	}
	rig.Check(json.NewEncoder(os.Stdout).Encode(map[string]any{"Replace": replace}))
}

// noting returns the text of file with a call at the beginning of each function. Lines keep their numbers.
func noting(file string) []byte {
	text := rig.Must(os.ReadFile(file))
	tree := rig.Must(parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution))
	used := false
	for _, declared := range slices.Backward(tree.Decls) {
		if f, ok := declared.(*ast.FuncDecl); ok && f.Body != nil {
			used = true
			text = slices.Insert(text, int(f.Body.Lbrace), []byte(fmt.Sprintf("entered.Function(%q);", file+" "+name(f)))...)
		}
	}
	if used {
		text = slices.Insert(text, int(tree.Name.End())-1, []byte(`;import "github.com/tipcache/tipcache/cmd/bench/journeys/entered"`)...)
	}
	return text
}

// name returns the name of a function, after its receiver's type.
func name(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		default:
			return fmt.Sprint(t) + "." + f.Name.Name
		}
	}
}
