package config

import (
	"errors"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	Place string // where the value stands: FILE:LINE, a variable or a flag; empty for a default
	Key   string // the setting, as in chain.timeout; may name an item of a list, or a section
	Text  string // what is wrong, with the value unless it is a secret
}

// Error writes the problem on one line.
func (p Problem) Error() string {
	parts := slices.DeleteFunc([]string{p.Place, p.Key, p.Text}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// Problems lists what err joins, each problem once.
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

// places tells where each key was said. Sections and items of lists are keys,
// too: chain, and chain.nodes[1].
type places map[string]string

// put adds the place to a problem that has none.
func (p places) put(err error) error {
	problem, ok := err.(Problem) //nolint:errorlint // a wrapped one has been put already
	if !ok || problem.Place != "" {
		return err
	}
	problem.Place = p.of(problem.Key)
	return problem
}

func (p places) of(key string) string {
	if place, ok := p[key]; ok {
		return place
	}
	list, _, _ := strings.Cut(key, "[")
	return p[list]
}
