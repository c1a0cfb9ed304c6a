package mutants

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
)

// An edit is one small change of a source file, made by an operator.
type edit struct {
	operator string
	from, to int // offsets of the replaced text
	text     string
}

// Tokens and names of each operator, and what replaces them. The other edits are in visit.
var swapped = map[string]struct{ operator, text string }{
	"==": {"compare", "!="}, "!=": {"compare", "=="}, "<": {"compare", "<="}, "<=": {"compare", "<"}, ">": {"compare", ">="}, ">=": {"compare", ">"},
	"&&": {"logic", "||"}, "||": {"logic", "&&"},
	"+": {"arithmetic", "-"}, "-": {"arithmetic", "+"}, "*": {"arithmetic", "/"}, "/": {"arithmetic", "*"},
	"+=": {"arithmetic", "-="}, "-=": {"arithmetic", "+="}, "++": {"arithmetic", "--"}, "--": {"arithmetic", "++"},
	"continue": {"jump", "break"}, "break": {"jump", "continue"},
	"true": {"bool", "false"}, "false": {"bool", "true"}, "min": {"bound", "max"}, "max": {"bound", "min"},
}

// A finder collects the edits of one file.
type finder struct {
	source []byte
	file   *token.File
	edits  []edit
}

// editsOf returns the edits of a source file, in the order of its text. Descriptions, such as log lines and metric
// help, have none.
func editsOf(name string, source []byte) ([]edit, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{source: source, file: set.File(parsed.Pos())}
	for _, d := range parsed.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			ast.Inspect(function.Body, f.visit)
		}
	}
	return f.edits, nil
}

func (f *finder) add(operator string, from, to token.Pos, text string) {
	f.edits = append(f.edits, edit{operator, f.file.Offset(from), f.file.Offset(to), text})
}

// swap adds the edit of a token or a name, if it has one.
func (f *finder) swap(text string, at token.Pos) {
	if s, ok := swapped[text]; ok {
		f.add(s.operator, at, at+token.Pos(len(text)), s.text)
	}
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return !describes(n)
	case *ast.BinaryExpr:
		f.swap(n.Op.String(), n.OpPos)
	case *ast.IncDecStmt:
		f.swap(n.Tok.String(), n.TokPos)
	case *ast.AssignStmt:
		f.swap(n.Tok.String(), n.TokPos)
	case *ast.BranchStmt:
		if n.Label == nil {
			f.swap(n.Tok.String(), n.TokPos)
		}
	case *ast.IfStmt:
		f.add("negate", n.Cond.Pos(), n.Cond.End(), "!("+string(f.source[f.file.Offset(n.Cond.Pos()):f.file.Offset(n.Cond.End())])+")")
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
			f.add("constant", n.Pos(), n.End(), strconv.FormatInt(i+1, 10))
		}
	case *ast.Ident:
		f.swap(n.Name, n.Pos())
	case *ast.SelectorExpr: // a selected name has no edits
		ast.Inspect(n.X, f.visit)
		return false
	case *ast.ReturnStmt:
		if len(n.Results) > 0 {
			if last, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && last.Name == "err" {
				f.add("swallow", last.Pos(), last.End(), "nil")
			}
		}
	case *ast.BlockStmt:
		f.drop(n.List)
	case *ast.CaseClause:
		f.drop(n.Body)
	case *ast.CommClause:
		f.drop(n.Body)
	}
	return true
}

// drop adds the edits that leave out a statement.
func (f *finder) drop(statements []ast.Stmt) {
	for _, s := range statements {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); !ok || describes(call) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		default:
			continue
		}
		f.add("drop", s.Pos(), s.End(), "")
	}
}

// description matches the names of functions that write to the log, create metrics, errors or texts for people, or end
// the process.
var description = regexp.MustCompile(`^(Debug|Info|Warn|Error|Log|LogAttrs|Errorf|New(Counter|Gauge|Histogram|Desc|MetricWith).*|Println|Fprintf|Fprintln|panic|Inc|Observe)$`)

func describes(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return description.MatchString(f.Name)
	case *ast.SelectorExpr:
		return description.MatchString(f.Sel.Name)
	}
	return false
}
