package web

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// DidYouMean returns "; did you mean X?" if word is probably a typo of the candidate X, or "". Case and the marks between words
// do not count: log_level is near log.level.
func DidYouMean(word string, candidates []string) string {
	return suggest(word, candidates, func(candidate string) (a, b string) { return word, candidate })
}

// PathDidYouMean is DidYouMean for a path. Candidates are patterns of routes, whose variables match any text.
func PathDidYouMean(path string, patterns []string) string {
	segments := strings.Split(path, "/")
	return suggest(path, patterns, func(pattern string) (a, b string) {
		parts := strings.Split(pattern, "/")
		if len(parts) != len(segments) {
			return "", ""
		}
		for i, part := range parts {
			if !strings.HasPrefix(part, "{") {
				a, b = a+"/"+segments[i], b+"/"+part
			}
		}
		return a, b
	})
}

// maxWord is the length above which nothing is suggested for a word, because anyone may send one.
const maxWord = 200

// suggest suggests the nearest candidate. texts returns the texts to compare for a candidate. Equal texts exclude it.
func suggest(word string, candidates []string, texts func(candidate string) (a, b string)) string {
	if len(word) > maxWord {
		return ""
	}
	nearest, least := "", len(word)/4+2
	for _, c := range candidates {
		a, b := texts(c)
		isSame := a == b
		a, b = lettersOf(a), lettersOf(b)
		limit := min(least, len(b)/4+2)
		if isSame || max(len(a)-len(b), len(b)-len(a)) >= limit {
			continue // the distance is at least the difference of the lengths, and computing it costs most when they differ most
		}
		if d := levenshtein.ComputeDistance(a, b); d < limit {
			nearest, least = "; did you mean "+c+"?", d
		}
	}
	return nearest
}

var noMarks = strings.NewReplacer(".", "", "_", "", "-", "")

func lettersOf(s string) string { return noMarks.Replace(strings.ToLower(s)) }
