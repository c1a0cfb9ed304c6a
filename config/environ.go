package config

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// fromEnviron reads the variables that begin with envPrefix, or the files that
// they name.
func fromEnviron(environ []string, into settings, where places) error {
	known := map[string]Key{}
	for _, k := range Keys() {
		known[k.Env] = k
	}
	seen := map[string]bool{}
	var problems []error
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envPrefix+"TEST_") {
			continue
		}
		k, s, err := fromVariable(known, name, value)
		if err != nil {
			problems = append(problems, Problem{Place: name, Text: err.Error()})
			continue
		}
		if seen[k.Path] {
			problems = append(problems, Problem{Place: name, Key: k.Path, Text: "both the value and a file are given"})
		}
		seen[k.Path] = true
		if s != nil {
			into[k.Path], where[k.Path] = *s, name
		}
	}
	return errors.Join(problems...)
}

// fromVariable reads a variable, or the file that it names. It returns nil
// where nothing is said.
func fromVariable(known map[string]Key, name, value string) (Key, *setting, error) {
	if k, ok := known[name]; ok {
		return k, k.setting(strings.Split(value, ","), value), nil
	}
	base, isFile := strings.CutSuffix(name, fileSuffix)
	k, ok := known[base]
	if !ok || !isFile || !k.Secret {
		return k, nil, errors.New("no such setting" + DidYouMean(name, variables()))
	}
	if value == "" {
		return k, nil, nil
	}
	texts, err := secretFrom(k, value)
	if err != nil {
		return k, nil, err
	}
	return k, &setting{texts, k.List}, nil
}

// variables are the names of those that set something.
func variables() []string {
	var names []string
	for _, k := range Keys() {
		names = append(names, k.Env)
	}
	return names
}

func fromFlags(flags map[string][]string, into settings, where places) {
	for _, k := range Keys() {
		if values := flags[k.Flag]; k.Flag != "" && len(values) > 0 {
			into[k.Path], where[k.Path] = *k.setting(values, values[len(values)-1]), "--"+k.Flag
		}
	}
}

func (k Key) setting(list []string, single string) *setting {
	if !k.List {
		return &setting{texts: []string{single}}
	}
	items := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.TrimSpace(s) == "" })
	return &setting{texts: items, list: true}
}

// fileSuffix behind the variable of a secret names the file that holds it, as
// container platforms mount them.
const fileSuffix = "_FILE"

// secretFrom reads the value of a secret from a file: without the line break
// at the end, a list with one value on each line. Blank lines and those that
// begin with # say nothing.
func secretFrom(k Key, path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the caller names the variable
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if !k.List {
		return []string{text}, nil
	}
	var values []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			values = append(values, line)
		}
	}
	return values, nil
}
