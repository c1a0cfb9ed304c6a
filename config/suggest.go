package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is the candidate that a misspelt word probably meant, or "". Case and
// the marks between words do not count: log_level is near log.level.
func Nearest(word string, candidates []string) string {
	best, least := "", len(word)/4+2
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(letters(word), letters(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

var noMarks = strings.NewReplacer(".", "", "_", "", "-", "")

func letters(s string) string { return noMarks.Replace(strings.ToLower(s)) }

// DidYouMean ends a sentence about an unknown word, with nothing where no
// candidate is near.
func DidYouMean(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
