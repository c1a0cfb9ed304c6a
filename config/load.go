package config

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
)

const envPrefix = "TIPCACHE_"

// Sources is where the settings come from, weakest first: the defaults, the
// file, the environment, the flags.
type Sources struct {
	File    string              // path of a YAML file; empty: none
	Environ []string            // as os.Environ gives it
	Flags   map[string][]string // flag name to its values

	// Check, if set, finds further problems in a configuration that has been
	// read, such as names that only the caller knows. It joins Problems.
	Check func(Config) error
}

// settings are what the sources say, by path.
type settings map[string]setting

// A setting is what one source says for one key.
type setting struct {
	texts []string // one value, or the items of a list
	list  bool     // written as a list
}

// Load reads the sources and validates the result. The error joins every
// Problem found, so that one run shows them all.
func Load(s Sources) (Config, error) {
	said, where := settings{}, places{}
	var problems []error
	if s.File != "" {
		if err := fromFile(s.File, said, where); err != nil {
			if !isProblem(err) {
				return Config{}, errors.Join(err)
			}
			problems = append(problems, err)
		}
	}
	problems = append(problems, fromEnviron(s.Environ, said, where))
	fromFlags(s.Flags, said, where)
	cfg := defaultsFor(said)
	problems = append(problems, decode(said, &cfg))
	if slices.Equal(cfg.Chain.Nodes, []string{"none"}) {
		cfg.Chain.Nodes = nil
	}
	problems = append(problems, cfg.Validate())
	if s.Check != nil {
		problems = append(problems, s.Check(cfg))
	}
	list := Problems(errors.Join(problems...))
	for i, p := range list {
		list[i] = where.put(p)
	}
	return cfg, errors.Join(list...)
}

func isProblem(err error) bool { return errors.As(err, &Problem{}) }

// defaultsFor withdraws the defaults that what is said makes wrong.
func defaultsFor(said settings) Config {
	cfg := Default()
	_, nodes := said["chain.nodes"]
	if _, comet := said["chain.comet"]; nodes && !comet {
		cfg.Chain.Comet = nil // the default one belongs to the default node
	}
	for path := range said {
		if strings.HasPrefix(path, "collections.") {
			cfg.Collections.Auth = "keys" // whoever configures collections means to serve them
		}
	}
	return cfg
}

// decode lays what the sources say over the defaults.
func decode(said settings, cfg *Config) error {
	var problems []error
	try := func(path string, field reflect.Value) {
		s, ok := said[path]
		if !ok {
			return
		}
		before := reflect.New(field.Type()).Elem()
		before.Set(field)
		if err := set(field, s); err != nil {
			field.Set(before) // so that one problem does not look like two
			problems = append(problems, Problem{Key: path, Text: err.Error()})
		}
	}
	eachKey("", reflect.ValueOf(cfg).Elem(), func(path string, _ reflect.StructField, field reflect.Value) { try(path, field) })
	for _, name := range routesIn(said) {
		var own Class
		eachKey("routes."+name+".", reflect.ValueOf(&own).Elem(), func(path string, _ reflect.StructField, field reflect.Value) { try(path, field) })
		if cfg.Routes == nil {
			cfg.Routes = map[string]Class{}
		}
		cfg.Routes[name] = own
	}
	return errors.Join(problems...)
}

// routesIn lists the routes that have settings of their own.
func routesIn(said settings) []string {
	names := map[string]bool{}
	for path := range said {
		if rest, ok := strings.CutPrefix(path, "routes."); ok {
			name, _, _ := strings.Cut(rest, ".")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
