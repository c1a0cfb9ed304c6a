package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
)

var update = flag.Bool("update", false, "write REFERENCE.md anew")

func TestReferenceFileIsUpToDate(t *testing.T) {
	const file = "REFERENCE.md"
	if *update {
		if err := os.WriteFile(file, []byte(config.Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), config.Reference()); diff != "" {
		t.Errorf("go test ./config -update writes it (-committed +generated):\n%s", diff)
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	text := config.Reference()
	for _, k := range config.Keys() {
		if k.Doc == "" {
			t.Errorf("%s has no meaning", k.Path)
		}
		if !strings.Contains(text, "| `"+k.Path+"`") {
			t.Errorf("%s is missing", k.Path)
		}
	}
}
