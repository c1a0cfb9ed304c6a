package config

import (
	"slices"
	"strings"
)

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
			l.problems = append(l.problems, Problem{Place: name, Text: noSuchSetting(name, names)})
		}
	}
}

// secretFile reads the value of a secret from a file, without the line break at its end. A list
// has one value per line, and blank lines and comments with # are skipped. An empty path is ignored. An
// empty file is a problem, unless the setting is a list.
func (l *loader) secretFile(k Key, variable, path string) {
	if path == "" {
		return
	}
	raw, err := readFile(path)
	if err != nil {
		l.problems = append(l.problems, Problem{Place: variable, Text: err.Error()})
		return
	}
	if l.places[k.Path] == k.Env {
		l.problems = append(l.problems, Problem{Place: variable, Key: k.Path, Text: "both this file and the value are set: remove one"})
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if strings.TrimSpace(text) == "" && !k.List { // a setting without its secret would protect nothing
		l.problems = append(l.problems, Problem{Place: variable, Key: k.Path, Text: "the file " + path + " is empty"})
		return
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	l.set(k.Path, variable, fieldAt(&l.cfg, k.Path), k.texts(lines, text))
}
