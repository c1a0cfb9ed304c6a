package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

const envPrefix = "TIPCACHE_"

// Sources is where the settings come from, weakest first: the defaults, the
// file, the environment, the flags.
type Sources struct {
	File    string              // path of a YAML file; empty: none
	Environ []string            // as os.Environ gives it
	Flags   map[string][]string // flag name to its values
}

// Load reads the sources and validates the result. The error joins every
// problem found, so that one run shows them all.
func Load(s Sources) (Config, error) {
	k := koanf.New(".")
	var problems []error
	if s.File != "" {
		if err := k.Load(file.Provider(s.File), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", s.File, err)
		}
	}
	env, err := fromEnviron(s.Environ)
	problems = append(problems, err)
	for _, m := range []map[string]any{env, fromFlags(s.Flags)} {
		if err := k.Load(confmap.Provider(m, "."), nil); err != nil {
			problems = append(problems, err)
		}
	}
	problems = append(problems, unknownKeys(k))
	cfg := defaultsFor(k)
	problems = append(problems, decode(k, &cfg))
	problems = append(problems, cfg.Validate())
	return cfg, errors.Join(problems...)
}

// defaultsFor withdraws the defaults that what is said makes wrong.
func defaultsFor(k *koanf.Koanf) Config {
	cfg := Default()
	if k.Exists("chain.nodes") && !k.Exists("chain.comet") {
		cfg.Chain.Comet = nil // the default one belongs to the default node
	}
	if k.Exists("collections") {
		cfg.Collections.Auth = "keys" // who configures collections means to serve them
	}
	return cfg
}

func unknownKeys(k *koanf.Koanf) error {
	var problems []error
	for _, path := range k.Keys() {
		if !isKey(path) {
			problems = append(problems, fmt.Errorf("%s: no such setting", path))
		}
	}
	return errors.Join(problems...)
}

// decode lays what the sources say over the defaults.
func decode(k *koanf.Koanf, cfg *Config) error {
	err := k.UnmarshalWithConf("", cfg, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result:           cfg,
		TagName:          "koanf",
		WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			replaceLists,
			parseDuration,
			mapstructure.TextUnmarshallerHookFunc(),
		),
	}})
	return tidy(err)
}

// replaceLists makes a list a whole: without it a shorter list would keep the
// tail of the default one.
func replaceLists(from, to reflect.Value) (any, error) {
	if to.Kind() == reflect.Slice && to.CanSet() {
		to.SetLen(0)
	}
	return from.Interface(), nil
}

func parseDuration(_, to reflect.Type, value any) (any, error) {
	s, ok := value.(string)
	if !ok || to != reflect.TypeFor[time.Duration]() {
		return value, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time such as 100ms, 5s or 1h", s)
	}
	return d, nil
}

func fromEnviron(environ []string) (map[string]any, error) {
	known := map[string]Key{}
	for _, k := range Keys() {
		known[k.Env] = k
	}
	m := map[string]any{}
	var problems []error
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envPrefix+"TEST_") {
			continue
		}
		setting, err := fromVariable(known, name, value)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if _, twice := m[setting.path]; twice {
			problems = append(problems, fmt.Errorf("%s: both the value and a file are given", setting.path))
		}
		if setting.value != nil {
			m[setting.path] = setting.value
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return m, errors.Join(problems...)
}

type setting struct {
	path  string
	value any // nil: nothing is said
}

// fromVariable reads a variable, or the file that it names.
func fromVariable(known map[string]Key, name, value string) (setting, error) {
	if k, ok := known[name]; ok {
		return setting{k.Path, valueOf(k, strings.Split(value, ","), value)}, nil
	}
	base, isFile := strings.CutSuffix(name, fileSuffix)
	k, ok := known[base]
	if !ok || !isFile || !k.Secret {
		return setting{}, errors.New("no such setting")
	}
	if value == "" {
		return setting{path: k.Path}, nil
	}
	secret, err := secretFrom(k, value)
	return setting{k.Path, secret}, err
}

func fromFlags(flags map[string][]string) map[string]any {
	m := map[string]any{}
	for _, k := range Keys() {
		if values := flags[k.Flag]; k.Flag != "" && len(values) > 0 {
			m[k.Path] = valueOf(k, values, values[len(values)-1])
		}
	}
	return m
}

func valueOf(k Key, list []string, single string) any {
	if !k.List {
		return single
	}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// tidy turns the decoder's report into one error a line.
func tidy(err error) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []error
		for _, e := range joined.Unwrap() {
			problems = append(problems, tidy(e))
		}
		return errors.Join(problems...)
	}
	if inner := errors.Unwrap(err); inner != nil {
		if _, ok := inner.(interface{ Unwrap() []error }); ok {
			return tidy(inner)
		}
	}
	msg := strings.ReplaceAll(err.Error(), "\n", " ")
	if path, rest, ok := strings.Cut(strings.TrimPrefix(msg, "'"), "' "); ok {
		msg = path + ": " + rest
	}
	return errors.New(msg)
}
