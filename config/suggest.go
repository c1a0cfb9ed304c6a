package config

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// DidYouMean ends a sentence about an unknown word with the candidate that it is
// probably a misspelling of, or with nothing where none is near. Case and the marks
// between words do not count: log_level is near log.level.
func DidYouMean(word string, candidates []string) string {
	suggestion, least := "", len(word)/4+2
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(letters(word), letters(c)); d < least {
			suggestion, least = "; did you mean "+c+"?", d
		}
	}
	return suggestion
}

var noMarks = strings.NewReplacer(".", "", "_", "", "-", "")

func letters(s string) string { return noMarks.Replace(strings.ToLower(s)) }
