package load

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestWrittenCollectionsCanBeImported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	expect.NoError(t, demo.WriteCollections(generated(5000), path))
	f := expect.Value(os.Open(path))(t)
	defer f.Close()
	n := 0
	for _, err := range collections.ReadJSONL(f, new(int)) {
		expect.NoError(t, err)
		n++
	}
	expect.Equal(t, n, 5000, "collections")
}
