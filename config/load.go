package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
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
	values   map[string]error  // by path of a given setting: the error of its last value, or nil
	places   map[string]string // where settings, sections (chain) and items of lists (chain.nodes[1]) were given
	inFile   map[string]string // the settings in places once the file was read
	problems []error           // all except those of values
}

// Load reads the sources and validates the result. The error joins all Problems.
func Load(s Sources) (Config, error) {
	l := &loader{cfg: Default(), values: map[string]error{}, places: map[string]string{}}
	if s.File != "" {
		if err := l.file(s.File); err != nil {
			return Config{}, errors.Join(err)
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
	l.cfg.Warnings = l.located(slices.Concat(l.overridden(), l.cfg.grpcWarnings(), l.cfg.ruleWarnings()))
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
			all = append(all, Problem{Place: at, Key: path, Text: "the file's value is overridden by " + l.places[path]})
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

// fileSuffix is the suffix of variables that name the file of a secret, as container platforms
// mount them.
const fileSuffix = "_FILE"

// environ reads the variables that begin with envPrefix, and the files of secrets.
func (l *loader) environ(environ []string) {
	var names []string
	values, files := map[string]Key{}, map[string]Key{}
	for _, k := range Keys() {
		names, values[k.Env] = append(names, k.Env), k
		if k.Secret {
			files[k.Env+fileSuffix] = k
		}
	}
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envPrefix+"TEST_") {
			continue
		}
		if k, ok := values[name]; ok {
			l.set(k.Path, name, fieldAt(&l.cfg, k.Path), k.texts(strings.Split(value, ","), value))
		} else if k, ok := files[name]; ok {
			l.secretFile(k, name, value)
		} else {
			l.problems = append(l.problems, Problem{Place: name, Text: "no such setting" + web.DidYouMean(name, names)})
		}
	}
}

// secretFile reads the value of a secret from a file, without the line break at its end. A list
// has one value per line, and blank lines and comments with # are skipped. An empty path is ignored.
func (l *loader) secretFile(k Key, variable, path string) {
	if path == "" {
		return
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		l.problems = append(l.problems, Problem{Place: variable, Text: err.Error()})
		return
	}
	if l.places[k.Path] == k.Env {
		l.problems = append(l.problems, Problem{Place: variable, Key: k.Path, Text: "both the value and a file are given"})
	}
	text := strings.TrimRight(string(raw), "\r\n")
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	l.set(k.Path, variable, fieldAt(&l.cfg, k.Path), k.texts(lines, text))
}

// Reload copies the settings of next that may change while serving, and returns their paths. It also
// returns the paths of settings that differ but need a restart.
func (c *Config) Reload(next Config) (changed, restart []string) {
	wanted := map[string]reflect.Value{}
	eachKey("", reflect.ValueOf(next), func(path string, _ reflect.StructField, v reflect.Value) { wanted[path] = v })
	eachKey("", reflect.ValueOf(c).Elem(), func(path string, f reflect.StructField, v reflect.Value) {
		switch {
		case reflect.DeepEqual(v.Interface(), wanted[path].Interface()):
		case f.Tag.Get("reload") != "":
			v.Set(wanted[path])
			changed = append(changed, path)
		default:
			restart = append(restart, path)
		}
	})
	return changed, restart
}

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
