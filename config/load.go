package config

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Sources are the sources of settings. Flags win over the environment, and that over the file.
type Sources struct {
	File    string              // path of a YAML file; "" means none
	Environ []string            // as os.Environ returns it
	Flags   map[string][]string // values by flag name
}

// A loader applies the sources to the defaults, the strongest last.
type loader struct {
	cfg      Config
	said     map[string]error // the error of the last value by path, nil for a valid one
	places   places
	problems []error // problems other than of a value
}

// Load reads the sources and validates the result. The error joins all Problems.
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

// set parses the texts that a source has for a setting, several for a list. An invalid value changes
// nothing, so that one problem is not reported twice.
func (l *loader) set(path, place string, field reflect.Value, texts []string) {
	value := reflect.New(field.Type()).Elem()
	err := parse(value, texts)
	if err == nil {
		field.Set(value)
	}
	l.said[path], l.places[path] = err, place
}

// implied sets what follows from other settings.
func (l *loader) implied() {
	l.cfg.derive()
	said := func(path string) bool { _, ok := l.said[path]; return ok }
	if said("chain.nodes") && !said("chain.comet") {
		l.cfg.Chain.Comet = nil // the default belongs to the default node
	}
	if slices.Equal(l.cfg.Chain.Nodes, []string{"none"}) {
		l.cfg.Chain.Nodes = nil
		for _, others := range []*[]string{&l.cfg.Chain.Comet, &l.cfg.Chain.GRPC} {
			if slices.Equal(*others, []string{"none"}) {
				*others = nil
			}
		}
	}
	for path := range l.said {
		if strings.HasPrefix(path, "collections.") && !said("collections.auth") {
			l.cfg.Collections.Auth = "keys" // other settings of collections imply that they are served
		}
	}
}
