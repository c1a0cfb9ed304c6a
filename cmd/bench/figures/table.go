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

// Table prints rows below their head. Columns of numbers, or of which the first row has
// nothing, are set right.
func (r Report) Table(title string, head []string, rows [][]string) {
	widths, rule := make([]int, len(head)), make([]string, len(head))
	for i := range head {
		for _, row := range append(rows, head) {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		rule[i] = strings.Repeat("-", widths[i]+1) + ":"
		if len(rows) > 0 && rows[0][i] != "" && !strings.ContainsRune("0123456789-", rune(rows[0][i][0])) {
			rule[i] = strings.Repeat("-", widths[i]+2)
			widths[i] = -widths[i] // fmt sets it left
		}
	}
	fmt.Fprintf(r.W, "%s:\n\n", title)
	r.row(widths, head)
	fmt.Fprintln(r.W, "|"+strings.Join(rule, "|")+"|")
	for _, row := range rows {
		r.row(widths, row)
	}
	fmt.Fprintln(r.W)
}

func (r Report) row(widths []int, cells []string) {
	for i, cell := range cells {
		fmt.Fprintf(r.W, "| %*s ", widths[i], cell)
	}
	fmt.Fprintln(r.W, "|")
}
