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

// Problems returns the errors that err joins, or only err if it has a text of its own.
func Problems(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error }) // a wrapper has a text of its own
	switch {
	case err == nil:
		return nil
	case !ok || errors.Join(joined.Unwrap()...).Error() != err.Error():
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, Problems(e)...)
	}
	return all
}
