package rig

import (
	"slices"
	"strconv"
	"strings"
)

// Samples are the values of a Prometheus text by series, as in
// name{label="value"}.
type Samples map[string]float64

// ParseSamples reads the text format as client_golang writes it.
func ParseSamples(text string) Samples {
	s := Samples{}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
			s[line[:at]] = v
		}
	}
	return s
}

// Sum adds up the series of a metric that have all the labels, as in
// outcome="hit".
func (s Samples) Sum(metric string, labels ...string) (total float64) {
	for series, v := range s {
		name, rest, _ := strings.Cut(series, "{")
		if name == metric && !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			total += v
		}
	}
	return total
}
