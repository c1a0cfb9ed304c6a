package config

import (
	_ "embed" // for the example
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/tipcache/tipcache/proxy"
)

const referenceHead = `# Configuration

This page lists every setting of ` + "`tipcache serve`" + `. tipcache reads a YAML file, then environment variables, then flags. The later source wins.
A variable marked * holds a secret. The same name with the suffix ` + "`_FILE`" + ` names a file with the value.
Settings marked ↻ change on SIGHUP. Others need a restart.
Lists are separated by commas in a variable, repeated as a flag, and one value per line in a secret file.
Times have a unit: 100ms, 5s, 1h. Do not pass secrets on the command line, which other users of the machine can read.
` + "`tipcache config`" + ` prints this page, and ` + "`tipcache config --example`" + ` a file to begin with.
`

// Example is a commented configuration to begin with.
//
//go:embed example.yaml
var Example string

// Reference returns the description of every setting in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	section := ""
	for _, k := range Keys() {
		if s := k.section(); s != section {
			section = s
			b.WriteString("\n## " + s + "\n\n| key | variable | flag | default | meaning |\n|---|---|---|---|---|\n")
		}
		b.WriteString(k.row())
	}
	return b.String()
}

func (k Key) section() string {
	first, _, nested := strings.Cut(k.Path, ".")
	if !nested && !k.onlyInFile() {
		return "Listeners"
	}
	return first
}

func (k Key) row() string {
	path, variable, flag := "`"+k.Path+"`", "`"+k.Env+"`", ""
	if k.Reload {
		path += " ↻"
	}
	if k.Secret {
		variable += " *"
	}
	if k.onlyInFile() {
		variable = ""
	}
	if k.Flag != "" {
		flag = "`--" + k.Flag + "`"
	}
	text := k.DefaultText()
	if text != "" {
		text = "`" + text + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", path, variable, flag, text, strings.ReplaceAll(k.Doc, "|", `\|`))
}

func (k Key) onlyInFile() bool {
	v := reflect.ValueOf(k.Default)
	return v.Kind() == reflect.Map || isListOfSections(v)
}

// zeroUnits are the units at the end of a duration that say nothing, as in 1h0m0s.
var zeroUnits = regexp.MustCompile(`([hm])(0m)?0s$`)

// DefaultText returns the default as it is written in a file.
func (k Key) DefaultText() string {
	switch v := k.Default.(type) {
	case time.Duration:
		return zeroUnits.ReplaceAllString(v.String(), "$1")
	case []string:
		return strings.Join(v, ", ")
	case map[string]*Route, []proxy.Mount:
		return ""
	default:
		return fmt.Sprint(v)
	}
}
