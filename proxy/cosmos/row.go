package cosmos

import (
	"cmp"
	_ "embed" // the rows
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
)

var (
	//go:embed rows.txt
	tableText string
	//go:embed outside.txt
	outsideText string

	table   = sync.OnceValue(func() []dialect.Row { return parseRows(tableText) })
	outside = sync.OnceValue(func() []dialect.Row { return parseRows(outsideText) })
)

// parseRows returns the rows of an embedded file, whose first lines describe its format.
func parseRows(text string) (rows []dialect.Row) {
	for line := range strings.Lines(text) {
		line, method, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := ParseRow(line)
		if err != nil {
			panic(err) // tests read both files
		}
		r.Method = cmp.Or(method, r.Method)
		rows = append(rows, r)
	}
	return rows
}

// ParseRow parses a row, also of an operator: name, pattern, class, cost and parameters of the query, separated by blanks.
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

// methodPath matches a gRPC method in place of a pattern. No path of a REST server has a dot before its second slash.
var methodPath = regexp.MustCompile(`^/[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+/[A-Za-z0-9_]+$`)

// minWords is the number of words of a row without parameters.
const minWords = 4

// check returns an error if a row is invalid.
func check(r dialect.Row) error {
	switch isMethod := r.Pattern == ""; {
	case strings.ContainsAny(r.Name, "/\"\\"):
		return fmt.Errorf("the name %q is not a word", r.Name)
	case isMethod && r.Class != blocks.Live && r.Class != blocks.Never:
		return fmt.Errorf("the class %q of a method is not one of live and never", r.Class)
	case isMethod && r.Query != "":
		return fmt.Errorf("a method has no parameters of a query, as %q", r.Query)
	case isMethod:
		return nil
	case !strings.HasPrefix(r.Pattern, "/"):
		return fmt.Errorf("the pattern %q is not a path", r.Pattern)
	case !slices.Contains([]blocks.Class{blocks.Live, blocks.Params, blocks.Block, blocks.Found, blocks.Latest, blocks.Never}, r.Class):
		return fmt.Errorf("the class %q is not one of live, params, block, found, latest and never", r.Class)
	}
	_, err := dialect.NewParser(r, dialect.Gateway, fieldOf)
	return err
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
func Rows(own []dialect.Row) []dialect.Row { return slices.Concat(own, outside(), table()) }

// Described returns the rows that documents describe: the operator's and the table's. The rows of values outside
// the state belong to chains with modules of their own.
func Described(own []dialect.Row) []dialect.Row {
	return slices.DeleteFunc(slices.Concat(own, table()), func(r dialect.Row) bool { return r.Pattern == "" })
}
