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

// A Row is one line of the table; see [dialect.Row]. Its Query has proto names, optionally with :kind. Its Method may be the name of
// a method of the service Query of the path's module, or SERVICE/NAME of another service of that module.
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

// ParseRow parses a row of an operator: name, pattern, class, cost and parameters of the query, separated by blanks.
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

// version matches the segment that ends the package of a module.
var version = regexp.MustCompile(`^v[0-9]`)

// method returns the full name of the method. The package has the segments of the module's path.
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

// methodPath matches a gRPC method in place of a pattern. No path of a REST server has a dot before its second slash.
var methodPath = regexp.MustCompile(`^/[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+/[A-Za-z0-9_]+$`)

// minWords is the number of words of a row without parameters.
const minWords = 4

// Check returns an error if a row of an operator is invalid.
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

// checkMethod returns an error if a row for a gRPC method is invalid.
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
