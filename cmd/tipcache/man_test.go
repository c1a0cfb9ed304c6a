package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEveryCommandHasManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	expect.Value(runs(t, "man", dir))(t)
	for file, want := range map[string]string{
		"tipcache.1":         "tipcache-serve(1)",
		"tipcache-serve.1":   "TIPCACHE_CHAIN_ID",
		"tipcache-key-new.1": "tipcache key new NAME",
		"tipcache-man.1":     "tipcache man /usr/local/share/man/man1",
	} {
		page, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		} else if text := strings.ReplaceAll(string(page), `\`, ""); !strings.Contains(text, ".TH") || !strings.Contains(text, want) {
			t.Errorf("%s does not hold %s:\n%s", file, want, page)
		}
	}
}
