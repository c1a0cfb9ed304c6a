package collections

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// ErrNewerSchema says that the database was migrated by a later tipcache. This
// one leaves it alone: upgrade it, or give it another database.
var ErrNewerSchema = errors.New("the schema of the store is newer than this program")

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
		return nil, fmt.Errorf("%w: it has version %d, known is %d", ErrNewerSchema, version, len(files))
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
