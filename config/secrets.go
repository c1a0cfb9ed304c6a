package config

import (
	"errors"
	"os"
	"strings"
)

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
