package cosmos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/upstream/node"
)

// A Class says what may be done with the answers of a row.
type Class string

// The classes.
const (
	Live   Class = "live"   // state that any block may change: read pinned at the tip
	Params Class = "params" // state that only governance changes
	Block  Class = "block"  // of CometBFT, by height: fixed as soon as it is there. Never pinned: the answer would be the tip's
	Found  Class = "found"  // of CometBFT, by hash: fixed once found, and what is not found may be in the next block
	Latest Class = "latest" // of CometBFT: the newest, or a search; until the next block
	Never  Class = "never"  // about the node itself: passed through
)

// valid says whether the class is one of those above.
func (c Class) valid() bool {
	switch c {
	case Live, Params, Block, Found, Latest, Never:
		return true
	}
	return false
}

// pinned says whether the class is read at a height.
func (c Class) pinned() bool { return c == Live || c == Params }

// A Row is one line of the table: a path, and how it is asked and kept.
type Row struct {
	Name    string // metric label, and what purges and policies call it
	Pattern string // {name} stands for a segment, {name=**} for all that follow; {name:kind} where the name alone does not say the kind
	Class   Class
	Cost    node.Cost
	Query   string // the parameters read, by proto name and perhaps :kind, with blanks between; "*" for whatever comes
}

// ParseRow reads a row as an operator writes it: name, pattern, class, cost and the parameters of the
// query, with blanks between.
func ParseRow(line string) (Row, error) {
	words := strings.Fields(line)
	if len(words) < minWords {
		return Row{}, fmt.Errorf("%q is not NAME PATTERN CLASS COST PARAMETERS", line)
	}
	r := Row{Name: words[0], Pattern: words[1], Class: Class(words[2]), Query: strings.Join(words[minWords:], " ")}
	cost := slices.Index([]string{node.Cheap.String(), node.Page.String(), node.Scan.String()}, words[3])
	if cost < 0 {
		return r, fmt.Errorf("the cost %q is not one of cheap, page and scan", words[3])
	}
	r.Cost = node.Cost(cost)
	return r, r.Check()
}

// minWords are those that every row has.
const minWords = 4

// Check says what is wrong with a row that an operator wrote.
func (r Row) Check() error {
	switch {
	case r.Name == "" || strings.ContainsAny(r.Name, " /\"\\"):
		return fmt.Errorf("the name %q is not a word", r.Name)
	case !strings.HasPrefix(r.Pattern, "/"):
		return fmt.Errorf("the pattern %q is not a path", r.Pattern)
	case !r.Class.valid():
		return fmt.Errorf("the class %q is not one of live, params, block, found, latest and never", r.Class)
	}
	_, err := compile(r)
	return err
}
