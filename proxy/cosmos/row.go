package cosmos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A Row is one line of the table, as dialect.Row says. Its Query has the parameters by proto name, and
// perhaps :kind. Its Method may be the name alone of one of the service Query of the path's module, or the
// service and the name.
type Row dialect.Row

// The classes, by their names in the table.
const (
	Live   = blocks.Live
	Params = blocks.Params
	Block  = blocks.Block
	Found  = blocks.Found
	Latest = blocks.Latest
	Never  = blocks.Never
)

// ParseRow reads a row as an operator writes it: name, pattern, class, cost and the parameters of the
// query, with blanks between.
func ParseRow(line string) (Row, error) {
	words := strings.Fields(line)
	if len(words) < minWords {
		return Row{}, fmt.Errorf("%q is not NAME PATTERN CLASS COST PARAMETERS", line)
	}
	r := Row{Name: words[0], Pattern: words[1], Class: blocks.Class(words[2]), Query: strings.Join(words[minWords:], " ")}
	cost := slices.Index([]string{node.Cheap.String(), node.Page.String(), node.Scan.String()}, words[3])
	if cost < 0 {
		return r, fmt.Errorf("the cost %q is not one of cheap, page and scan", words[3])
	}
	r.Cost = node.Cost(cost)
	if methodPath.MatchString(r.Pattern) {
		r.Method, r.Pattern = r.Pattern, ""
	}
	return r, r.Check()
}

// version is a segment that ends the package of a module.
var version = regexp.MustCompile(`^v[0-9]`)

// method is the whole name of the method: the package is written as the path of the module.
func (r Row) method() string {
	if r.Method == "" || r.Method[0] == '/' {
		return r.Method
	}
	segments := strings.Split(r.Pattern[1:], "/")
	last := slices.IndexFunc(segments, version.MatchString)
	name := r.Method
	if !strings.Contains(name, "/") {
		name = "Query/" + name
	}
	return "/" + strings.Join(segments[:last+1], ".") + "." + name
}

// methodPath is a method of gRPC in place of a pattern: no path of a REST server has a dot before its second slash.
var methodPath = regexp.MustCompile(`^/[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+/[A-Za-z0-9_]+$`)

// minWords is how many words every row has.
const minWords = 4

// Check says what is wrong with a row that an operator wrote.
func (r Row) Check() error {
	switch {
	case r.Name == "" || strings.ContainsAny(r.Name, " /\"\\"):
		return fmt.Errorf("the name %q is not a word", r.Name)
	case r.Pattern == "" && methodPath.MatchString(r.Method):
		return r.checkMethod()
	case !strings.HasPrefix(r.Pattern, "/"):
		return fmt.Errorf("the pattern %q is not a path", r.Pattern)
	case !slices.Contains([]blocks.Class{Live, Params, Block, Found, Latest, Never}, r.Class):
		return fmt.Errorf("the class %q is not one of live, params, block, found, latest and never", r.Class)
	}
	_, err := dialect.NewParser(dialect.Row(r), dialect.Gateway, fieldOf)
	return err
}

// checkMethod says what is wrong with a row for a method of gRPC.
func (r Row) checkMethod() error {
	switch {
	case r.Class != Live && r.Class != Never:
		return fmt.Errorf("the class %q of a method is not one of live and never", r.Class)
	case r.Query != "":
		return fmt.Errorf("a method has no parameters of a query, as %q", r.Query)
	}
	return nil
}

// Split returns the rows for paths and those for methods of gRPC.
func Split(rows []Row) (paths, methods []dialect.Row) {
	for _, r := range rows {
		if r.Pattern == "" {
			methods = append(methods, dialect.Row(r))
		} else {
			paths = append(paths, dialect.Row(r))
		}
	}
	return paths, methods
}

// Rows returns all rows of a chain: the operator's, then the rows of values outside the state, then the table's.
func Rows(own []Row) []dialect.Row {
	known := slices.Clone(own)
	for _, o := range outside {
		known = append(known, o.Row)
	}
	return withMethods(append(known, table...))
}

// Described returns the rows that documents describe: the operator's and the table's. The rows of values outside
// the state belong to chains with modules of their own.
func Described(own []Row) []dialect.Row {
	all := withMethods(slices.Concat(own, table))
	return slices.DeleteFunc(all, func(r dialect.Row) bool { return r.Pattern == "" })
}

func withMethods(rows []Row) []dialect.Row {
	all := make([]dialect.Row, len(rows))
	for i, r := range rows {
		r.Method = r.method()
		all[i] = dialect.Row(r)
	}
	return all
}
