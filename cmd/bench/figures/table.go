package figures

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Report prints notes and tables as GitHub renders them.
type Report struct{ W io.Writer }

// Note prints a paragraph.
func (r Report) Note(format string, args ...any) {
	fmt.Fprintf(r.W, format+"\n\n", args...)
}

// Row is a row of a table: about three digits of numbers with fractions, and the
// others as they are.
func Row(cells ...any) []string {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if x, ok := cell.(float64); ok {
			cell = Decimal(x)
		}
		row[i] = fmt.Sprint(cell)
	}
	return row
}

// Table prints rows below their head. Columns of numbers are set right.
func (r Report) Table(title string, head []string, rows [][]string) {
	columns := columnsOf(head, rows)
	fmt.Fprintf(r.W, "%s:\n\n", title)
	r.row(columns, head)
	for _, c := range columns {
		fmt.Fprint(r.W, "|", strings.Repeat("-", c.width+1))
		fmt.Fprint(r.W, map[bool]string{true: ":", false: "-"}[c.numbers])
	}
	fmt.Fprintln(r.W, "|")
	for _, row := range rows {
		r.row(columns, row)
	}
	fmt.Fprintln(r.W)
}

// A column is how wide one is, in runes, and whether it has numbers.
type column struct {
	width   int
	numbers bool
}

// columnsOf finds the widths. A column has numbers where its first row has one
// or nothing.
func columnsOf(head []string, rows [][]string) []column {
	columns := make([]column, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			columns[i].width = max(columns[i].width, utf8.RuneCountInString(cell))
		}
	}
	if len(rows) == 0 {
		return columns
	}
	for i, first := range rows[0] {
		columns[i].numbers = first == "" || strings.ContainsRune("0123456789-", rune(first[0]))
	}
	return columns
}

func (r Report) row(columns []column, cells []string) {
	for i, c := range cells {
		space := strings.Repeat(" ", columns[i].width-utf8.RuneCountInString(c))
		if columns[i].numbers {
			c = space + c
		} else {
			c += space
		}
		fmt.Fprintf(r.W, "| %s ", c)
	}
	fmt.Fprintln(r.W, "|")
}
