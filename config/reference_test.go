package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

var update = flag.Bool("update", false, "write REFERENCE.md")

func TestReferenceFileIsUpToDate(t *testing.T) {
	const file = "REFERENCE.md"
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(config.Reference()), 0o644))
	}
	committed := expect.Value(os.ReadFile(file))(t)
	expect.NoDiff(t, config.Reference(), string(committed), "config/REFERENCE.md (go test -tags nomsgpack ./config -update writes it)")
}

func TestReferenceHasEveryKey(t *testing.T) {
	text := config.Reference()
	for _, k := range config.Keys() {
		if k.Doc == "" {
			t.Errorf("%s has no description", k.Path)
		}
		if !strings.Contains(text, "| `"+k.Path+"`") {
			t.Errorf("reference lacks %s", k.Path)
		}
	}
}
