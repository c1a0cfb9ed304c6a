package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// file is a source file of the package that is changed.
type file struct {
	path string // absolute
	name string // as it is printed
	text []byte
	tree *ast.File
	set  *token.FileSet
}

// mutation is one small fault: the text between start and end is another one. What it names
// stays in the text, so that nothing is unused.
type mutation struct {
	file         *file
	start, end   int
	text         string
	was, becomes string // as it is printed
}

func (m mutation) String() string {
	line := m.file.set.File(m.file.tree.Pos()).Line(m.file.tree.FileStart + token.Pos(m.start))
	return fmt.Sprintf("%s:%d  %s  ->  %s", m.file.name, line, oneLine(m.was), oneLine(m.becomes))
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 90 {
		return s[:60] + " ... " + s[len(s)-25:]
	}
	return s
}

// parseFiles reads the files of a package that are built here, without tests.
func parseFiles(ctx context.Context, pkg, only string) ([]*file, error) {
	out, err := tool(ctx, "list", "-f", "{{.Dir}}\n{{range .GoFiles}}{{.}}\n{{end}}", pkg)
	if err != nil {
		return nil, err
	}
	dir, names, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	var files []*file
	for name := range strings.FieldsSeq(names) {
		if !strings.Contains(name, only) {
			continue
		}
		f := &file{path: filepath.Join(dir, name), name: filepath.ToSlash(filepath.Join(pkg, name)), set: token.NewFileSet()}
		if f.text, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.tree, err = parser.ParseFile(f.set, f.path, f.text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// candidates returns all mutations of the functions of the files.
func candidates(files []*file) (all []mutation) {
	for _, f := range files {
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					all = append(all, f.mutations(n)...)
					return true
				})
			}
		}
	}
	return all
}

func (f *file) mutations(n ast.Node) []mutation {
	switch n := n.(type) {
	case *ast.IfStmt:
		return f.condition(n)
	case *ast.BinaryExpr:
		return f.binary(n)
	case *ast.BlockStmt:
		return f.dropped(n.List)
	case *ast.CaseClause:
		return f.dropped(n.Body)
	case *ast.CommClause:
		return f.dropped(n.Body)
	case *ast.CallExpr: // the greater value for the smaller one, and the other way round
		if other := map[string]string{"min": "max", "max": "min"}[f.textOf(n.Fun)]; other != "" {
			return []mutation{f.at(n.Fun, other, f.textOf(n), other+strings.TrimPrefix(f.textOf(n), f.textOf(n.Fun)))}
		}
	case *ast.ReturnStmt:
		return f.returned(n)
	}
	return nil
}

// condition negates a condition, and removes a guard.
func (f *file) condition(n *ast.IfStmt) []mutation {
	text := f.textOf(n.Cond)
	all := []mutation{f.at(n.Cond, "!("+text+")", "if "+text, "if !("+text+")")}
	if n.Else == nil && leaves(n.Body) {
		all = append(all, f.at(n.Cond, "false && ("+text+")", "if "+text, "if false"))
	}
	return all
}

// leaves says whether a block ends its function or its turn of a loop.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// others are what operators become: the bound of a comparison moves, an equality is negated.
var others = map[token.Token]string{token.LSS: "<=", token.GTR: ">=", token.LEQ: "<", token.GEQ: ">", token.EQL: "!=", token.NEQ: "=="}

// binary changes the operator, leaves out one side of "and" and "or", and is off by one where
// one is added or taken away.
func (f *file) binary(n *ast.BinaryExpr) []mutation {
	x, y, whole := f.textOf(n.X), f.textOf(n.Y), f.textOf(n)
	switch op := n.Op; op {
	case token.LAND:
		return []mutation{f.at(n.X, "(true || "+x+")", whole, y), f.at(n.Y, "(true || "+y+")", whole, x)}
	case token.LOR:
		return []mutation{f.at(n.X, "(false && ("+x+"))", whole, y), f.at(n.Y, "(false && ("+y+"))", whole, x)}
	case token.ADD, token.SUB:
		if y == "1" {
			return []mutation{f.at(n, x, whole, x)}
		}
	default:
		if other, ok := others[op]; ok {
			return []mutation{f.at(n, x+" "+other+" "+y, whole, x+" "+other+" "+y)}
		}
	}
	return nil
}

// dropped leaves out each statement that can be.
func (f *file) dropped(list []ast.Stmt) (all []mutation) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		default:
			continue
		}
		all = append(all, f.at(s, "if false { "+f.textOf(s)+" }", f.textOf(s), "nothing"))
	}
	return all
}

// returned says the contrary.
func (f *file) returned(n *ast.ReturnStmt) (all []mutation) {
	for _, r := range n.Results {
		if text := f.textOf(r); text == "true" || text == "false" {
			all = append(all, f.at(r, "!"+text, f.textOf(n), "the contrary of "+text))
		}
	}
	return all
}

// at puts another text in the place of a node.
func (f *file) at(n ast.Node, text, was, becomes string) mutation {
	return mutation{f, f.set.Position(n.Pos()).Offset, f.set.Position(n.End()).Offset, text, was, becomes}
}

func (f *file) textOf(n ast.Node) string {
	return string(f.text[f.set.Position(n.Pos()).Offset:f.set.Position(n.End()).Offset])
}
