package config

import (
	"errors"
	"slices"
	"strings"
)

// A Problem is an error in a configuration.
type Problem struct {
	Place string // FILE:LINE, a variable or a flag; "" for a default
	Key   string // the setting, an item of a list, or a section
	Text  string // the problem, with the value unless it is a secret
}

// Error writes the problem on one line.
func (p Problem) Error() string {
	parts := slices.DeleteFunc([]string{p.Place, p.Key, p.Text}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// Problems returns the errors that err joins.
func Problems(err error) (all []error) {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &joined):
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, Problems(e)...)
	}
	return all
}
