package probe

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Sizes in a picture, in pixels.
const (
	labelWidth = 230 // left of the lines
	lineWidth  = 560
	lineHeight = 56
	lineGap    = 34
	top        = 62
	columns    = lineWidth / 2 // of a line: each shows the sample that was the furthest behind
	maxScale   = 5             // blocks; more are drawn at the top
)

// colors tell the lines apart, also for people who confuse red and green.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// WritePicture writes an SVG of the blocks by which each endpoint was behind over time, one line below the other. A mark under
// a line shows failures.
func (r *Report) WritePicture(w io.Writer) error {
	height := top + len(r.Endpoints)*(lineHeight+lineGap) + 20
	width := labelWidth + lineWidth + 30
	about := fmt.Sprintf("%s: blocks behind the newest block", cmp.Or(r.Chain, "unknown chain"))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escape(about))
	fmt.Fprintf(&b, `<text x="16" y="26" font-size="17" fill="#222">%s</text>`+"\n", escape(about))
	fmt.Fprintf(&b, `<text x="16" y="45" fill="#666">%s, %v s, %v reads per second each; lower is better</text>`+"\n", r.Began.Format("2006-01-02 15:04 UTC"), r.Seconds, r.Rate)
	scale := r.scale()
	for i := range r.Endpoints {
		r.writeLine(&b, &r.Endpoints[i], top+i*(lineHeight+lineGap), scale, colors[i%len(colors)])
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#666">0 s</text><text x="%d" y="%d" fill="#666" text-anchor="end">%v s</text>`+"\n</svg>\n",
		labelWidth, height-12, labelWidth+lineWidth, height-12, r.Seconds)
	_, err := io.WriteString(w, b.String())
	return err
}

// scale returns the number of blocks at the top of each line.
func (r *Report) scale() int64 {
	most := int64(2)
	for _, e := range r.Endpoints {
		most = max(most, e.Behind.Most)
	}
	return min(most, maxScale)
}

// writeLine writes the line of one endpoint below a height y.
func (r *Report) writeLine(w io.Writer, e *Result, y int, scale int64, color string) {
	bottom := y + lineHeight
	fmt.Fprintf(w, `<text x="16" y="%d" font-weight="bold" fill="%s">%s</text>`, y+18, color, escape(e.Name))
	fmt.Fprintf(w, `<text x="16" y="%d" fill="#444">%s</text>`, y+36, escape(e.caption()))
	fmt.Fprintf(w, `<text x="16" y="%d" fill="#444">p99 %s, %s failed</text>`+"\n", y+53, millis(e.Latency.P99), percent(e.FailureShare))
	for blocks := int64(0); blocks <= scale; blocks++ {
		at := float64(bottom) - float64(blocks*lineHeight)/float64(scale)
		fmt.Fprintf(w, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" font-size="10" fill="#888" text-anchor="end">%s</text>`,
			labelWidth, at, lineWidth, labelWidth-5, at+3, blocksLabel(blocks, scale, e.Behind.Most))
	}
	area, failures := r.paths(e, bottom, scale)
	fmt.Fprintf(w, "\n"+`<path d="%s" fill="%s" fill-opacity="0.25" stroke="%s" stroke-width="1.5" stroke-linejoin="round"/>`+"\n", area, color, color)
	if failures != "" {
		fmt.Fprintf(w, `<path d="%s" stroke="#b00" stroke-width="2"/>`+"\n", failures)
	}
}

// blocksLabel returns the label of a number of blocks.
func blocksLabel(blocks, scale, most int64) string {
	if blocks == scale && most > scale {
		return fmt.Sprintf("%d+", blocks)
	}
	return fmt.Sprint(blocks)
}

// caption says in a few words how current the endpoint was.
func (r *Result) caption() string {
	if r.Named == 0 {
		return "names no block"
	}
	return percent(r.Behind.At0) + " at the newest block"
}

// paths returns two SVG paths: an area whose height is the number of blocks behind, and the marks of failures.
func (r *Report) paths(e *Result, bottom int, scale int64) (area, failures string) {
	most, failed := e.columns(max(r.Seconds, 1), max(1, 2/r.Rate))
	var line, marks strings.Builder
	last := int64(-1) // blocks in the column before; -1 if there is no line
	for i, blocks := range append(most, -1) {
		x := labelWidth + i*lineWidth/columns
		if i < columns && failed[i] {
			fmt.Fprintf(&marks, "M%d %dv7", x+1, bottom+3)
		}
		if last < 0 && blocks >= 0 {
			fmt.Fprintf(&line, "M%d %d", x, bottom)
		}
		if blocks != last {
			fmt.Fprintf(&line, "H%dV%.1f", x, float64(bottom)-float64(min(max(blocks, 0), scale)*lineHeight)/float64(scale))
		}
		last = blocks
	}
	return line.String(), marks.String()
}

// columns divides a period, in seconds, into columns. For each column it returns the maximum number of blocks behind, which is -1
// if no sample names a block, and whether a sample failed. A column without samples repeats the previous one for up to hold
// seconds.
func (r *Result) columns(period, hold float64) (most []int64, failed []bool) {
	most, failed = make([]int64, columns), make([]bool, columns)
	taken := make([]bool, columns)
	for i := range most {
		most[i] = -1
	}
	for _, p := range r.points {
		i := min(max(int(p.at.Seconds()/period*columns), 0), columns-1)
		most[i], failed[i], taken[i] = max(most[i], p.behind), failed[i] || p.failed, true
	}
	for i, last := 0, -1; i < columns; i++ {
		if taken[i] {
			last = i
		} else if last >= 0 && float64(i-last) <= hold/period*columns {
			most[i] = most[last]
		}
	}
	return most, failed
}

// escape returns a text for XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder returns no error
	return b.String()
}
