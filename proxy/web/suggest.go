package web

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// DidYouMean returns the end of a sentence that suggests the candidate of which a word is probably a typo, "" if there is none.
// Case and the marks between words do not count: log_level is near log.level.
func DidYouMean(word string, candidates []string) string {
	n := nearest{least: tolerated(word)}
	for _, c := range candidates {
		n.compare(word, c)
	}
	return n.sentence()
}

// PathDidYouMean is DidYouMean for a path. Candidates are patterns of routes, whose variables match any text.
func PathDidYouMean(path string, patterns []string) string {
	n, segments := nearest{least: tolerated(path)}, strings.Split(path, "/")
	for _, pattern := range patterns {
		words, parts := slices.Clone(segments), strings.Split(pattern, "/")
		if len(words) != len(parts) {
			continue
		}
		for i, part := range parts {
			if strings.HasPrefix(part, "{") {
				words[i] = part
			}
		}
		n.compare(strings.Join(words, "/"), pattern)
	}
	return n.sentence()
}

// nearest is the candidate with the smallest distance below least, of those compared so far.
type nearest struct {
	candidate string
	least     int
}

func tolerated(word string) int { return len(word)/4 + 2 }

func (n *nearest) compare(word, candidate string) {
	a, b := lettersOf(word), lettersOf(candidate)
	if word == candidate || max(len(a)-len(b), len(b)-len(a)) >= n.least {
		return // the distance is at least the difference of the lengths, and computing it costs most when they differ most
	}
	if d := levenshtein.ComputeDistance(a, b); d < n.least {
		n.candidate, n.least = candidate, d
	}
}

func (n *nearest) sentence() string {
	if n.candidate == "" {
		return ""
	}
	return "; did you mean " + n.candidate + "?"
}

var noMarks = strings.NewReplacer(".", "", "_", "", "-", "")

func lettersOf(s string) string { return noMarks.Replace(strings.ToLower(s)) }
