package sqlstore

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/tipcache/tipcache/upstream/collections"
)

//go:embed schema
var schemaFiles embed.FS

// migrations returns the scripts that bring a database of the named kind from
// the version given to the newest. A version is the number of scripts applied.
func migrations(kind string, version int) ([]string, error) {
	files, err := fs.Glob(schemaFiles, "schema/"+kind+"/*.sql") // sorted by name
	if err != nil {
		return nil, err
	}
	if version > len(files) {
		return nil, fmt.Errorf("%w: it has version %d, known is %d", collections.ErrNewerSchema, version, len(files))
	}
	var scripts []string
	for _, file := range files[version:] {
		script, err := schemaFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		scripts = append(scripts, string(script))
	}
	return scripts, nil
}
