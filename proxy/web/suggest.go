package web

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// DidYouMean returns the end of a sentence that suggests the candidate of which a word is probably a typo, "" if there is none.
// Case and the marks between words do not count: log_level is near log.level.
func DidYouMean(word string, candidates []string) string {
	return suggest(word, candidates, func(string) string { return word })
}

// PathDidYouMean is DidYouMean for a path. Candidates are patterns of routes, whose variables match any text.
func PathDidYouMean(path string, patterns []string) string {
	segments := strings.Split(path, "/")
	return suggest(path, patterns, func(pattern string) string {
		parts := strings.Split(pattern, "/")
		if len(parts) != len(segments) {
			return pattern
		}
		for i, part := range parts {
			if !strings.HasPrefix(part, "{") {
				parts[i] = segments[i]
			}
		}
		return strings.Join(parts, "/")
	})
}

// suggest suggests the nearest candidate. wordFor returns the word to compare with a candidate, or the candidate itself to
// skip it.
func suggest(word string, candidates []string, wordFor func(candidate string) string) string {
	nearest, least := "", len(word)/4+2
	for _, c := range candidates {
		compared := wordFor(c)
		a, b := lettersOf(compared), lettersOf(c)
		if compared == c || max(len(a)-len(b), len(b)-len(a)) >= least {
			continue // the distance is at least the difference of the lengths, and computing it costs most when they differ most
		}
		if d := levenshtein.ComputeDistance(a, b); d < least {
			nearest, least = "; did you mean "+c+"?", d
		}
	}
	return nearest
}

var noMarks = strings.NewReplacer(".", "", "_", "", "-", "")

func lettersOf(s string) string { return noMarks.Replace(strings.ToLower(s)) }
