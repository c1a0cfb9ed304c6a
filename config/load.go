package config

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Sources are the sources of settings. Flags win over the environment, and the environment over the file.
type Sources struct {
	File    string              // path of a YAML file; "" means none
	Environ []string            // as os.Environ returns it
	Flags   map[string][]string // values by flag name
}

// A loader applies the sources to the defaults, the strongest last.
type loader struct {
	cfg      Config
	values   map[string]error  // error of the last value of each given setting, by path; nil means that the value is valid
	places   map[string]string // where settings, sections (chain) and items of lists (chain.nodes[1]) were given
	inFile   map[string]string // the settings in places once the file was read
	problems []error           // other problems than the errors in values
}

// Load reads the sources and validates the result. The error joins all Problems. The configuration then has the values
// that are valid, but nothing of a file that is not YAML.
func Load(s Sources) (Config, error) {
	l := &loader{cfg: Default(), values: map[string]error{}, places: map[string]string{}}
	if s.File != "" {
		if err := l.file(s.File); err != nil {
			l.environ(s.Environ)
			return l.cfg, err
		}
	}
	l.inFile = maps.Clone(l.places)
	l.environ(s.Environ)
	for _, k := range Keys() {
		if values := s.Flags[k.Flag]; len(values) > 0 {
			l.set(k.Path, "--"+k.Flag, fieldAt(&l.cfg, k.Path), k.texts(values, values[len(values)-1]))
		}
	}
	l.implied()
	for _, path := range slices.Sorted(maps.Keys(l.values)) {
		if err := l.values[path]; err != nil {
			l.problems = append(l.problems, Problem{Key: path, Text: err.Error()})
		}
	}
	l.problems = append(l.problems, l.cfg.Validate())
	if err := errors.Join(l.problems...); err != nil {
		return l.cfg, errors.Join(l.located(Problems(err))...)
	}
	l.cfg.Warnings = l.located(slices.Concat(l.overridden(), l.cfg.servingWarnings(), l.cfg.healthWarnings(), l.cfg.proxyWarnings(), l.cfg.ruleWarnings()))
	return l.cfg, nil
}

// located adds the place to problems without one.
func (l *loader) located(all []error) []error {
	for i, err := range all {
		p, ok := err.(Problem) //nolint:errorlint // a wrapped one has its place
		if !ok || p.Place != "" {
			continue
		}
		list, _, _ := strings.Cut(p.Key, "[")
		p.Place = cmp.Or(l.places[p.Key], l.places[list])
		all[i] = p
	}
	return all
}

// overridden returns the settings of the file whose value a variable or flag overrides. Changing the file does not change them.
func (l *loader) overridden() (all []error) {
	for _, path := range slices.Sorted(maps.Keys(l.values)) {
		if at, ok := l.inFile[path]; ok && at != l.places[path] {
			all = append(all, Problem{Place: at, Key: path, Text: "overridden by " + l.places[path]})
		}
	}
	return all
}

// set parses the texts that a source has for a setting, several for a list. An invalid value changes
// nothing, so that one problem is not reported twice.
func (l *loader) set(path, place string, field reflect.Value, texts []string) {
	value := reflect.New(field.Type()).Elem()
	err := parse(value, texts)
	if err == nil {
		field.Set(value)
	}
	l.values[path], l.places[path] = err, place
	if l.inFile != nil { // the value replaces the items of a list in the file
		maps.DeleteFunc(l.places, func(at, _ string) bool { return strings.HasPrefix(at, path+"[") })
	}
}

// implied sets what follows from other settings.
func (l *loader) implied() {
	l.cfg.derive()
	given := func(path string) bool { _, ok := l.values[path]; return ok }
	if given("chain.nodes") && !given("chain.comet") {
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
	for path := range l.values {
		if strings.HasPrefix(path, "collections.") && !given("collections.auth") {
			l.cfg.Collections.Auth = "keys" // another setting of collections implies that they are served
		}
	}
}
