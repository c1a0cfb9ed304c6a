package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

func lines(t *testing.T, s config.Sources) []string {
	t.Helper()
	_, err := config.Load(s)
	var texts []string
	for _, p := range config.Problems(err) {
		texts = append(texts, p.Error())
	}
	return texts
}

func TestProblemNamesLineValueAndSuggestion(t *testing.T) {
	file := writeFile(t, `listen: 127.0.0.1:80
chian: {id: x}
log_level: debug
chain:
  nodes:
    - http://10.0.0.1:1317
    - 10.0.0.2:1317
  comet: [none, none]
  max_block_age: 2
  timeout: "5"
  shape: [node]
  in_flight: many
http:
  max_connections: -9
redis: none
routes:
  validators:
    fresh_bloks: 1
`)
	want := []string{
		"tipcache.yaml:2: chian.id: no such setting; did you mean chain.id?",
		"tipcache.yaml:3: log_level: no such setting; did you mean log.level?",
		"tipcache.yaml:15: redis: a section is expected here, not a value",
		"tipcache.yaml:18: routes.validators.fresh_bloks: no such setting; did you mean routes.validators.fresh_blocks?",
		"TIPCACHE_LOGLEVEL: no such setting; did you mean TIPCACHE_LOG_LEVEL?",
		"--shape: chain.shape: \"roundish\" is none of documented, node",
		`tipcache.yaml:10: chain.timeout: "5" has no unit: write a time such as 100ms, 5s or 1h`,
		`tipcache.yaml:12: chain.in_flight: "many" is not a whole number`,
		`tipcache.yaml:9: chain.max_block_age: "2" has no unit: write a time such as 100ms, 5s or 1h`,
		`tipcache.yaml:7: chain.nodes[1]: "10.0.0.2:1317" is not an http:// or https:// URL`,
		"tipcache.yaml:14: http.max_connections: -9 is negative",
	}
	got := lines(t, config.Sources{File: file, Environ: []string{"TIPCACHE_LOGLEVEL=info"}, Flags: map[string][]string{"shape": {"roundish"}}})
	if diff := cmp.Diff(asSet(want), asSet(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func asSet(lines []string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines {
		set[line] = true
	}
	return set
}

func TestMalformedFilesAreRefused(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"one that is not YAML", "chain:\n\tid: x", "tipcache.yaml:2: indented with a tab: YAML takes spaces only"},
		{"one with a tab further down", "chain:\n  id: x\nredis:\n  \turl: none", "tipcache.yaml:4: indented with a tab"},
		{"one that is broken elsewhere", "chain: [", "tipcache.yaml:1: "},
		{"one that is broken in its first line", "chain: [a\nlisten: b", "tipcache.yaml:1: did not find expected"},
		{"a second document", "chain: {id: a}\n---\nchain: {id: b}", "tipcache.yaml:2: a second document begins here"},
		{"a list", "- chain", "tipcache.yaml:1: settings are written as NAME: VALUE"},
		{"a key that is set twice", "chain: {id: a}\nchain: {id: b}", "tipcache.yaml:2: chain: set twice"},
		{"a section in place of a value", "chain: {id: {name: x}}", "tipcache.yaml:1: chain.id: a value is expected here"},
		{"a list of sections", "chain: {nodes: [{url: x}]}", "tipcache.yaml:1: chain.nodes[0]: a single value is expected"},
		{"an alias that contains itself", "chain: &c {nested: *c}", "chain.nested: contains itself"},
		{"one that is merged into itself", "chain: &c {<<: *c}", "chain: contains itself"},
	}
	for _, tt := range tests {
		_, err := config.Load(config.Sources{File: writeFile(t, tt.file)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q is missing in: %v", tt.name, tt.want, err)
		}
	}
}

func TestSectionsCanBeShared(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{File: writeFile(t, `
routes:
  validators: &slow {fresh_blocks: 2, stale_blocks: 9}
  pool: {fresh_blocks: 3, <<: *slow}
`)}))(t)
	if p := cfg.Routes["pool"]; *p.FreshBlocks != 3 || *p.StaleBlocks != 9 {
		t.Errorf("fresh %d, stale %d", *p.FreshBlocks, *p.StaleBlocks)
	}
}

func TestProblemOfUnknownRouteNamesLine(t *testing.T) {
	got := lines(t, config.Sources{File: writeFile(t, "routes:\n  poool: {fresh_blocks: 1}\n")})
	if diff := cmp.Diff([]string{"tipcache.yaml:2: routes.poool: no such route; did you mean pool?"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzFile: whatever is in a file, Load ends, and says so where it is wrong.
func FuzzFile(f *testing.F) {
	f.Add("chain: {id: x, nodes: [a, b], timeout: 5s}\nroutes: {a: {fresh: 1s}}")
	f.Add("a: &a {b: *a, <<: *a}")
	f.Add("? [x]\n: y")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = config.Load(config.Sources{File: writeFile(t, text)})
	})
}
