package config

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Sources is where the settings come from, weakest first: the defaults, the
// file, the environment, the flags.
type Sources struct {
	File    string              // path of a YAML file; empty: none
	Environ []string            // as os.Environ gives it
	Flags   map[string][]string // flag name to its values
}

// A loader lays what the sources say over the defaults, the strongest source last.
type loader struct {
	cfg      Config
	said     map[string]error // by path of a setting: what is wrong with the value given last, or nil
	places   places
	problems []error // problems that are not of a setting's value
}

// Load reads the sources and validates the result. The error joins every
// Problem found, so that one run shows them all.
func Load(s Sources) (Config, error) {
	l := &loader{cfg: Default(), said: map[string]error{}, places: places{}}
	if s.File != "" {
		if err := l.file(s.File); err != nil {
			return Config{}, errors.Join(err)
		}
	}
	l.environ(s.Environ)
	for _, k := range Keys() {
		if values := s.Flags[k.Flag]; len(values) > 0 {
			l.set(k.Path, "--"+k.Flag, fieldAt(&l.cfg, k.Path), k.texts(values, values[len(values)-1]))
		}
	}
	l.implied()
	for _, path := range slices.Sorted(maps.Keys(l.said)) {
		if err := l.said[path]; err != nil {
			l.problems = append(l.problems, Problem{Key: path, Text: err.Error()})
		}
	}
	l.problems = append(l.problems, l.cfg.Validate())
	list := Problems(errors.Join(l.problems...))
	for i, p := range list {
		list[i] = l.places.put(p)
	}
	return l.cfg, errors.Join(list...)
}

// set reads the texts that a source has for a setting: several for a list. A value
// that is wrong changes nothing, so that one problem does not look like two.
func (l *loader) set(path, place string, field reflect.Value, texts []string) {
	value := reflect.New(field.Type()).Elem()
	err := parse(value, texts)
	if err == nil {
		field.Set(value)
	}
	l.said[path], l.places[path] = err, place
}

// implied changes the defaults that other settings make wrong.
func (l *loader) implied() {
	l.cfg.derive()
	said := func(path string) bool { _, ok := l.said[path]; return ok }
	if said("chain.nodes") && !said("chain.comet") {
		l.cfg.Chain.Comet = nil // the default one belongs to the default node
	}
	if slices.Equal(l.cfg.Chain.Nodes, []string{"none"}) {
		l.cfg.Chain.Nodes = nil
	}
	for path := range l.said {
		if strings.HasPrefix(path, "collections.") && !said("collections.auth") {
			l.cfg.Collections.Auth = "keys" // settings of collections are there to serve them
		}
	}
}
