package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// report prints tables, for a terminal or for GitHub.
type report struct {
	w        io.Writer
	markdown bool
}

// note prints a line of text.
func (r *report) note(format string, args ...any) {
	fmt.Fprintf(r.w, format+"\n", args...)
	if r.markdown {
		fmt.Fprintln(r.w) // a paragraph
	}
}

// table prints rows below their head. Columns of numbers are set right.
func (r *report) table(title string, head []string, rows [][]string) {
	columns := columnsOf(head, rows)
	if r.markdown {
		fmt.Fprintf(r.w, "\n**%s**\n\n", title)
	} else {
		fmt.Fprintf(r.w, "\n%s\n", title)
	}
	r.row(columns, head)
	if r.markdown {
		r.rule(columns)
	}
	for _, row := range rows {
		r.row(columns, row)
	}
	fmt.Fprintln(r.w)
}

// column is how one is set.
type column struct {
	width   int // in runes
	numbers bool
}

// columnsOf finds the widths, and numbers where the first row has one or none.
func columnsOf(head []string, rows [][]string) []column {
	columns := make([]column, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			columns[i].width = max(columns[i].width, utf8.RuneCountInString(cell))
		}
	}
	for i := range columns {
		if len(rows) > 0 {
			first := rows[0][i]
			columns[i].numbers = first == "" || strings.ContainsRune("0123456789-", rune(first[0]))
		}
	}
	return columns
}

func (r *report) row(columns []column, cells []string) {
	padded := make([]string, len(cells))
	for i, c := range cells {
		space := strings.Repeat(" ", columns[i].width-utf8.RuneCountInString(c))
		if padded[i] = c + space; columns[i].numbers {
			padded[i] = space + c
		}
	}
	if r.markdown {
		fmt.Fprintf(r.w, "| %s |\n", strings.Join(padded, " | "))
		return
	}
	fmt.Fprintf(r.w, "  %s\n", strings.TrimRight(strings.Join(padded, "  "), " "))
}

// rule is what GitHub wants below the head.
func (r *report) rule(columns []column) {
	for _, c := range columns {
		if c.numbers {
			fmt.Fprint(r.w, "|---:")
		} else {
			fmt.Fprint(r.w, "|---")
		}
	}
	fmt.Fprintln(r.w, "|")
}
