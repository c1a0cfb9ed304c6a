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
func ParseRow(line string) (dialect.Row, error) {
	words := strings.Fields(line)
	if len(words) < minWords {
		return dialect.Row{}, fmt.Errorf("%q is not NAME PATTERN CLASS COST PARAMETERS", line)
	}
	r := dialect.Row{Name: words[0], Pattern: words[1], Class: blocks.Class(words[2]), Query: strings.Join(words[minWords:], " ")}
	cost := slices.Index([]string{node.Cheap.String(), node.Page.String(), node.Scan.String()}, words[3])
	if cost < 0 {
		return r, fmt.Errorf("the cost %q is not one of cheap, page and scan", words[3])
	}
	r.Cost = node.Cost(cost)
	if methodPath.MatchString(r.Pattern) {
		r.Method, r.Pattern = r.Pattern, ""
	}
	return r, check(r)
}

// version matches the segment that ends the package of a module.
var version = regexp.MustCompile(`^v[0-9]`)

// methodOf returns the full name of a row's method. The package has the segments of the module's path.
func methodOf(r dialect.Row) string {
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

// check returns an error if a row of an operator is invalid.
func check(r dialect.Row) error {
	switch {
	case r.Name == "" || strings.ContainsAny(r.Name, " /\"\\"):
		return fmt.Errorf("the name %q is not a word", r.Name)
	case r.Pattern == "" && methodPath.MatchString(r.Method):
		return checkMethod(r)
	case !strings.HasPrefix(r.Pattern, "/"):
		return fmt.Errorf("the pattern %q is not a path", r.Pattern)
	case !slices.Contains([]blocks.Class{Live, Params, Block, Found, Latest, Never}, r.Class):
		return fmt.Errorf("the class %q is not one of live, params, block, found, latest and never", r.Class)
	}
	_, err := dialect.NewParser(r, dialect.Gateway, fieldOf)
	return err
}

// checkMethod returns an error if a row for a gRPC method is invalid.
func checkMethod(r dialect.Row) error {
	switch {
	case r.Class != Live && r.Class != Never:
		return fmt.Errorf("the class %q of a method is not one of live and never", r.Class)
	case r.Query != "":
		return fmt.Errorf("a method has no parameters of a query, as %q", r.Query)
	}
	return nil
}

// Split returns the rows for paths and those for methods of gRPC.
func Split(rows []dialect.Row) (paths, methods []dialect.Row) {
	for _, r := range rows {
		if r.Pattern == "" {
			methods = append(methods, r)
		} else {
			paths = append(paths, r)
		}
	}
	return paths, methods
}

// Rows returns all rows of a chain: the operator's, then the rows of values outside the state, then the table's.
func Rows(own []dialect.Row) []dialect.Row {
	known := slices.Clone(own)
	for _, o := range outside {
		known = append(known, o.Row)
	}
	return withMethods(append(known, table...))
}

// Described returns the rows that documents describe: the operator's and the table's. The rows of values outside
// the state belong to chains with modules of their own.
func Described(own []dialect.Row) []dialect.Row {
	all := withMethods(slices.Concat(own, table))
	return slices.DeleteFunc(all, func(r dialect.Row) bool { return r.Pattern == "" })
}

// withMethods sets the full names of the methods in rows, and returns them.
func withMethods(rows []dialect.Row) []dialect.Row {
	for i, r := range rows {
		rows[i].Method = methodOf(r)
	}
	return rows
}
