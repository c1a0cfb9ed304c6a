package probe

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const none = "–"

// rows are the lines of a table. good reports whether a value is good; nil means that the value is neither good nor bad.
var rows = []struct {
	title string
	value func(r *Result) string
	good  func(r *Result) bool
}{
	{"API", func(r *Result) string { return api(r.API).String() }, nil},
	{"samples", func(r *Result) string { return fmt.Sprint(r.Samples) }, nil},
	{"failures", func(r *Result) string { return percent(r.FailureShare) }, func(r *Result) bool { return r.Failures == 0 }},
	{"responses name their block", (*Result).naming, nil},
	{"at the newest block", func(r *Result) string { return r.ifNamed(percent(r.Behind.At0)) }, func(r *Result) bool { return r.Behind.At0 >= 1-maxOver }},
	{"1 block behind", func(r *Result) string { return r.ifNamed(percent(r.Behind.At1)) }, nil},
	{"2 blocks behind", func(r *Result) string { return r.ifNamed(percent(r.Behind.At2)) }, nil},
	{"3 or more blocks behind", func(r *Result) string { return r.ifNamed(percent(r.Behind.More)) }, func(r *Result) bool { return r.Behind.More == 0 }},
	{"behind for, p99", func(r *Result) string { return r.ifNamed(millis(r.Behind.P99)) }, nil},
	{"steps backward on one connection", func(r *Result) string { return r.ifNamed(fmt.Sprint(r.StepsBackward.Connection)) }, func(r *Result) bool { return r.StepsBackward.Connection == 0 }},
	{"steps backward over all", func(r *Result) string { return r.ifNamed(fmt.Sprint(r.StepsBackward.All)) }, func(r *Result) bool { return r.StepsBackward.All == 0 }},
	{"equal when read again at its block", func(r *Result) string { return r.Pinned.summary() }, func(r *Result) bool { return r.Pinned.Equal == r.Pinned.Compared }},
	{"equal to the trusted node", func(r *Result) string { return r.Against.summary() }, func(r *Result) bool { return r.Against.isEqual() }},
	{"announced, but not readable for, p50", func(r *Result) string { return r.ifAnnounced(r.Announced.P50) }, nil},
	{"announced, but not readable for, most", func(r *Result) string { return r.ifAnnounced(r.Announced.Most) }, func(r *Result) bool { return r.Announced.Late == 0 }},
	{"latency, p50", func(r *Result) string { return took(r.Latency.P50) }, nil},
	{"latency, p99", func(r *Result) string { return took(r.Latency.P99) }, nil},
	{"latency of fresh connections, p50", func(r *Result) string { return took(r.Latency.FreshP50) }, nil},
	{"latency of fresh connections, p99", func(r *Result) string { return took(r.Latency.FreshP99) }, nil},
}

// WriteTable writes the report as a table with a column for each endpoint, in color if color is true.
func (r *Report) WriteTable(w io.Writer, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "chain %s, block %d, %v s, %v reads per second and endpoint\n\n", cmp.Or(printable(r.Chain), "unknown"), r.Newest, r.Seconds, r.Rate)
	title, width := 0, make([]int, len(r.Endpoints))
	for _, row := range rows {
		title = max(title, utf8.RuneCountInString(row.title))
		for i := range r.Endpoints {
			width[i] = max(width[i], utf8.RuneCountInString(row.value(&r.Endpoints[i])), utf8.RuneCountInString(r.Endpoints[i].Name))
		}
	}
	fmt.Fprintf(&b, "%*s", title, "")
	for i, e := range r.Endpoints {
		fmt.Fprintf(&b, "  %*s", width[i], e.Name)
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%-*s", title, row.title)
		for i := range r.Endpoints {
			e := &r.Endpoints[i]
			text := fmt.Sprintf("  %*s", width[i], row.value(e))
			if color && row.good != nil && strings.ContainsAny(text, "0123456789") {
				text = paint(text, row.good(e))
			}
			b.WriteString(text)
		}
	}
	b.WriteString("\n")
	r.writeDetails(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDetails writes the problems and differences of all endpoints.
func (r *Report) writeDetails(w io.Writer) {
	for _, e := range r.Endpoints {
		for _, p := range e.Problems {
			fmt.Fprintf(w, "\n%s: %d failed: %s", e.Name, p.Samples, p.Problem)
		}
		for _, d := range e.Pinned.Differences {
			fmt.Fprintf(w, "\n%s, read again: %s", e.Name, d)
		}
		if e.Against == nil {
			continue
		}
		for _, d := range e.Against.Differences {
			fmt.Fprintf(w, "\n%s, trusted node: %s", e.Name, d)
		}
	}
	fmt.Fprintln(w)
}

// paint returns a text in green or red for terminals.
func paint(text string, good bool) string {
	if good {
		return "\x1b[32m" + text + "\x1b[0m"
	}
	return "\x1b[31m" + text + "\x1b[0m"
}

// printable returns a text of a server without control characters, which a terminal would execute.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// naming returns yes, no, or the share of the responses that name their block.
func (r *Result) naming() string {
	switch {
	case r.Named == 0:
		return "no"
	case r.Silent == 0:
		return "yes"
	}
	return percent(share(r.Named, r.Named+r.Silent))
}

// ifNamed returns a text that means nothing if no sample names its block.
func (r *Result) ifNamed(text string) string {
	if r.Named == 0 {
		return none
	}
	return text
}

func (r *Result) ifAnnounced(ms float64) string {
	switch {
	case !r.Announced.Offered:
		return "not offered"
	case r.Announced.Blocks == 0:
		return none
	}
	return millis(ms)
}

// summary returns how many comparisons were equal, and how many were not possible.
func (c *Comparison) summary() string {
	if c == nil || c.Compared == 0 {
		return none
	}
	text := fmt.Sprintf("%d of %d", c.Equal, c.Compared)
	if c.OtherBlock > 0 {
		text += fmt.Sprintf(", %d of another block", c.OtherBlock)
	}
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	return text
}

func (c *Comparison) isEqual() bool { return c == nil || c.Equal == c.Compared }

// took returns a latency, which is 0 if no sample has succeeded.
func took(ms float64) string {
	if ms == 0 {
		return none
	}
	return millis(ms)
}

func millis(ms float64) string { return fmt.Sprintf("%.1f ms", ms) }
