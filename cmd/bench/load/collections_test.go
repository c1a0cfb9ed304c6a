package load

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/upstream/collections"
)

func TestWrittenCollectionsCanBeImported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	if err := demo.WriteCollections(generated(5000), path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for _, err := range collections.ReadJSONL(f) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5000 {
		t.Errorf("%d collections, want 5000", n)
	}
}
