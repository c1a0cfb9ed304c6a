package dialect

import (
	"fmt"
	"strings"
)

// Clash returns an error if a row cannot follow other rows, because one of them has its name or answers all of its requests.
// All rows must be valid.
func Clash(before []Row, row Row) error {
	for _, b := range before {
		switch {
		case b.Name == row.Name:
			return fmt.Errorf("%s is the name of another row", row.Name)
		case row.Method != "" && b.Method == row.Method:
			return fmt.Errorf("%s is never used: %s names the same method", row.Name, b.Name)
		case row.Pattern != "" && b.Pattern != "" && Covers(b.Pattern, row.Pattern):
			return fmt.Errorf("%s is never used: %s, which comes first, answers all paths of %s", row.Name, b.Name, row.Pattern)
		}
	}
	return nil
}

// Meets reports whether a text fits both a pattern of a route, or a name without variables, and a pattern in which * stands for any
// characters.
func Meets(route, stars string) bool {
	variable, rest, isVariable := strings.Cut(route, "}")
	isVariable = isVariable && strings.HasPrefix(route, "{")
	switch {
	case stars == "":
		return route == ""
	case stars[0] == '*':
		return Meets(route, stars[1:]) || isVariable && Meets(rest, stars) || !isVariable && route != "" && Meets(route[1:], stars)
	case isVariable:
		takes := stars[0] != '/' || strings.Contains(variable, "=")
		return Meets(rest, stars) || takes && Meets(route, stars[1:])
	}
	return route != "" && route[0] == stars[0] && Meets(route[1:], stars[1:])
}

// Covers reports whether every path that fits the second pattern fits the first. A path without variables is a pattern, too.
func Covers(first, second string) bool {
	p, err := parsePattern(first)
	q, alsoErr := parsePattern(second)
	if err != nil || alsoErr != nil {
		return false
	}
	for i, s := range p {
		switch {
		case i >= len(q):
			return false
		case s.Rest:
			return true
		case q[i].Rest, s.Literal != "" && s.Literal != q[i].Literal:
			return false
		}
	}
	return len(p) == len(q)
}
