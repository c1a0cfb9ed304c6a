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
	expect.Value(runCommand(t, "man", dir))(t)
	for file, want := range map[string]string{
		"tipcache.1":         "tipcache-serve(1)",
		"tipcache-serve.1":   "TIPCACHE_CHAIN_ID",
		"tipcache-key-new.1": "tipcache key new NAME",
		"tipcache-man.1":     "tipcache man /usr/local/share/man/man1",
	} {
		page := strings.ReplaceAll(string(expect.Value(os.ReadFile(filepath.Join(dir, file)))(t)), `\`, "")
		expect.Contains(t, page, ".TH", "%s", file)
		expect.Contains(t, page, want, "%s", file)
	}
}
