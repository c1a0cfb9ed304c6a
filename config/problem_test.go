package config_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

// problems returns the problems of a configuration.
func problems(t *testing.T, s config.Sources) (texts []string) {
	t.Helper()
	_, err := config.Load(s)
	for _, p := range config.Problems(err) {
		texts = append(texts, p.Error())
	}
	return texts
}

func TestWrappedErrorsAreOneProblem(t *testing.T) {
	joined := errors.Join(io.EOF, io.ErrClosedPipe)
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"none": {nil, 0}, "one": {io.EOF, 1}, "joined": {errors.Join(joined, io.EOF), 3},
		"wrapped": {fmt.Errorf("cut off: %w", joined), 1}, "wrapped twice": {fmt.Errorf("%w: %w", io.EOF, io.ErrClosedPipe), 1},
	} {
		expect.Equal(t, len(config.Problems(tt.err)), tt.want, "problems of an error that is %s", name)
	}
}

// wantProblem fails the test unless a file has one problem, which contains text.
func wantProblem(t *testing.T, file, text string) {
	t.Helper()
	if got := problems(t, config.Sources{File: writeFile(t, file)}); len(got) != 1 || !strings.Contains(got[0], text) {
		t.Errorf("problems of %s = %q, want one with %q", file, got, text)
	}
}

// wantError fails the test unless an error contains text, or is nil if text is "".
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("error = %v, want %q", err, text)
	}
}

func TestProblemNamesLineValueAndSuggestion(t *testing.T) {
	file := writeFile(t, `listen: 127.0.0.1:80
chian: {id: x}
log_level: debug
chain:
  nodes:
    - http://10.0.0.1:1317
    - 10.0.0.2:1317
    - http://10.0.0.3:1317/?key=secret
  comet: [none, none, "http://10.0.0.3:26657/#rpc"]
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
		"tipcache.yaml:16: redis: a section is expected here, not a value",
		"tipcache.yaml:19: routes.validators.fresh_bloks: no such setting; did you mean routes.validators.fresh_blocks?",
		"TIPCACHE_AUDIT_SHARE: was removed: tipcache no longer reads responses twice",
		"TIPCACHE_LOGLEVEL: no such setting; did you mean TIPCACHE_LOG_LEVEL?",
		"--shape: chain.shape: \"roundish\" is none of documented, node",
		`tipcache.yaml:11: chain.timeout: "5" has no unit: write a time such as 100ms, 5s or 1h`,
		`tipcache.yaml:13: chain.in_flight: "many" is not a whole number`,
		`tipcache.yaml:10: chain.max_block_age: "2" has no unit: write a time such as 100ms, 5s or 1h`,
		`tipcache.yaml:7: chain.nodes[1]: "10.0.0.2:1317" is not an http:// or https:// URL`,
		"tipcache.yaml:8: chain.nodes[2]: must have no query and no fragment",
		"tipcache.yaml:9: chain.comet[2]: must have no query and no fragment",
		"tipcache.yaml:15: http.max_connections: -9 is negative",
	}
	got := problems(t, config.Sources{File: file, Environ: []string{"TIPCACHE_LOGLEVEL=info", "TIPCACHE_AUDIT_SHARE=1"}, Flags: map[string][]string{"shape": {"roundish"}}})
	expect.NoDiff(t, slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)), "problems")
}

func TestUnknownSettingsAreExplained(t *testing.T) {
	for line, want := range map[string]string{
		"chain.id: x":                   "tipcache.yaml:1: chain.id: YAML does not nest names by dots: write chain: {id: VALUE}",
		"http.tls: {cert: x}":           "tipcache.yaml:1: http.tls.cert: YAML does not nest names by dots: write http: {tls: {cert: VALUE}}",
		"routes.pool.fresh_blocks: 1":   "write routes: {pool: {fresh_blocks: VALUE}}",
		"nodes: [http://10.0.0.1:1317]": "tipcache.yaml:1: nodes: no such setting; did you mean chain.nodes?",
	} {
		wantProblem(t, line, want)
	}
	got := problems(t, config.Sources{Environ: []string{"TIPCACHE_NODE=http://10.0.0.1", "TIPCACHE_NODES=http://10.0.0.1", "TIPCACHE_RATE=1/s"}})
	expect.NoDiff(t, got, []string{
		"TIPCACHE_NODE: no such setting; did you mean TIPCACHE_CHAIN_NODES?",
		"TIPCACHE_NODES: no such setting; did you mean TIPCACHE_CHAIN_NODES?",
		"TIPCACHE_RATE: no such setting; did you mean TIPCACHE_CHAIN_POST_RATE or TIPCACHE_COLLECTIONS_RATE or TIPCACHE_HTTP_RATE?",
	}, "problems")
}

func TestCommaBetweenAddressesIsExplained(t *testing.T) {
	const problem = "has a comma: repeat the flag, or write a list in the file, with one address each"
	for flag, tt := range map[string]struct{ value, want string }{
		"node":  {"http://10.0.0.1:1317,http://10.0.0.2:1317", "--node: chain.nodes[0]: " + problem},
		"comet": {"http://10.0.0.1,http://10.0.0.2", "--comet: chain.comet[0]: " + problem},
		"grpc":  {"10.0.0.1:9090,10.0.0.2:9090", "--grpc: chain.grpc[0]: " + problem},
		"evm":   {"http://10.0.0.1/v1,http://10.0.0.2", "--evm: index.evm[0]: " + problem},
	} {
		flags := map[string][]string{"node": {"http://10.0.0.1"}, "comet": {"none"}, "index": {"true"}, "network": {"story"}}
		flags[flag] = []string{tt.value}
		expect.NoDiff(t, problems(t, config.Sources{Flags: flags}), []string{tt.want}, "problems of --%s", flag)
	}
	for _, node := range []string{"http://user:a,b@10.0.0.1", "http://10.0.0.1/a,b", "http://10.0.0.1 header Accept=a,b"} {
		_, err := config.Load(config.Sources{Flags: map[string][]string{"node": {node}, "comet": {"none"}}})
		wantError(t, err, "")
	}
}

func TestTimeoutOfNodeIsPositive(t *testing.T) {
	wantProblem(t, "chain: {timeout: 0s}", "tipcache.yaml:1: chain.timeout: 0s is not positive")
	wantProblem(t, "chain: {timeout: 100ms}", "redis.timeout: 100ms must be shorter than chain.timeout (100ms)")
}

func TestMalformedFilesAreRefused(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"not YAML", "chain:\n\tid: x", "tipcache.yaml:2: indented with a tab: YAML takes spaces only"},
		{"tab in a later line", "chain:\n  id: x\nredis:\n  \turl: none", "tipcache.yaml:4: indented with a tab"},
		{"unclosed list", "chain: [", "tipcache.yaml:1: "},
		{"error in the first line", "chain: [a\nlisten: b", "tipcache.yaml:1: did not find expected"},
		{"second document", "chain: {id: a}\n---\nchain: {id: b}", "tipcache.yaml:2: a second document begins here"},
		{"list", "- chain", "tipcache.yaml:1: settings are written as NAME: VALUE"},
		{"key set twice", "chain: {id: a}\nchain: {id: b}", "tipcache.yaml:2: chain: set twice"},
		{"section in place of a value", "chain: {id: {name: x}}", "tipcache.yaml:1: chain.id: a value is expected here"},
		{"list of sections", "chain: {nodes: [{url: x}]}", "tipcache.yaml:1: chain.nodes[0]: a single value is expected"},
		{"alias that contains itself", "chain: &c {nested: *c}", "chain.nested: contains itself"},
		{"merged section", "chain: &c {id: a}\nredis: {<<: *c}", "redis.<<.id: no such setting"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(config.Sources{File: writeFile(t, tt.file)})
			wantError(t, err, tt.want)
		})
	}
}

func TestSectionsCanBeShared(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{File: writeFile(t, `
routes:
  validators: &slow {fresh_blocks: 2, stale_blocks: 9}
  pool: *slow
`)}))(t)
	if p := cfg.Routes["pool"]; *p.FreshBlocks != 2 || *p.StaleBlocks != 9 {
		t.Errorf("blocks of pool = %d fresh, %d stale; want 2 and 9", *p.FreshBlocks, *p.StaleBlocks)
	}
}

func TestProblemOfUnknownRouteNamesLine(t *testing.T) {
	got := problems(t, config.Sources{File: writeFile(t, "routes:\n  poool: {fresh_blocks: 1}\n")})
	expect.NoDiff(t, got, []string{"tipcache.yaml:2: routes.poool: no such route; did you mean pool?"}, "problems")
}

func TestSettingsOfAnUncachedRouteAreRefused(t *testing.T) {
	got := problems(t, config.Sources{File: writeFile(t, "chain: {dialect: cosmos}\nroutes:\n  node_status: {fresh_blocks: 1}\n")})
	expect.NoDiff(t, got, []string{"tipcache.yaml:3: routes.node_status: the route has class never, so its responses are not cached"}, "problems")
}

func TestPortsAreAtMost65535(t *testing.T) {
	for flag, value := range map[string]string{
		"listen": "127.0.0.1:65536", "node": "http://127.0.0.1:65536", "comet": "http://127.0.0.1:65536", "grpc": "127.0.0.1:65536",
		"redis": "redis://127.0.0.1:65536", "metadata": "blockscout:http://127.0.0.1:65536",
	} {
		flags := map[string][]string{"comet": {"http://h"}}
		flags[flag] = []string{value}
		_, err := config.Load(config.Sources{Flags: flags})
		wantError(t, err, "from 0 to 65535")
		flags[flag] = []string{strings.TrimSuffix(value, "6") + "5"}
		_, err = config.Load(config.Sources{Flags: flags})
		expect.NoError(t, err)
	}
}

func TestNodesAreListedOnce(t *testing.T) {
	for node, want := range map[string]string{
		"http://b": "", "http://a/v1": "", "http://a header X-Key=2": "",
		"http://a": "--node: chain.nodes[1]: the node is listed twice", "http://a/ priority 1": "the node is listed twice",
	} {
		_, err := config.Load(config.Sources{Flags: map[string][]string{"node": {"http://a", node}, "comet": {"none", "none"}}})
		wantError(t, err, want)
	}
}

func TestMalformedURLOfStoreIsRefused(t *testing.T) {
	got := problems(t, config.Sources{File: writeFile(t, "collections: {auth: none, store: 'postgres://user:%zz@db/collections'}\n")})
	expect.NoDiff(t, got, []string{"tipcache.yaml:1: collections.store: not a valid URL: a character such as % in a password is written as %25"}, "problems")
}

// Load must end without a panic for any file.
func FuzzFile(f *testing.F) {
	f.Add("chain: {id: x, nodes: [a, b], timeout: 5s}\nroutes: {a: {fresh: 1s}}")
	f.Add("a: &a {b: *a, <<: *a}")
	f.Add("? [x]\n: y")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = config.Load(config.Sources{File: writeFile(t, text)})
	})
}
