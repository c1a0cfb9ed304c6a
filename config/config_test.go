package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
)

const digest = "web:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tipcache.yaml")
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDefaultsAreValid(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{}))(t)
	expect.NoDiff(t, cfg, config.Default(), "configuration")
}

func TestFlagsWinOverEnvironmentAndEnvironmentOverFile(t *testing.T) {
	file := writeFile(t, "chain: {id: file, shape: node, in_flight: 7}\nlisten: 127.0.0.1:1\n")
	cfg := expect.Value(config.Load(config.Sources{
		File:    file,
		Environ: []string{"TIPCACHE_CHAIN_ID=env", "TIPCACHE_LISTEN=127.0.0.1:2", "PATH=/bin"},
		Flags:   map[string][]string{"listen": {"127.0.0.1:3"}},
	}))(t)
	got := []any{cfg.Chain.InFlight, cfg.Chain.Shape, cfg.Chain.ID, cfg.Listen}
	expect.NoDiff(t, got, []any{7, story.Node, "env", "127.0.0.1:3"}, "settings")
}

func TestEveryKindOfValueIsReadFromEverySource(t *testing.T) {
	want := config.Default()
	want.Chain.Nodes = []string{"http://a:1", "http://b:1"}
	want.Chain.Comet = []string{"http://a:2", "none"}
	want.Chain.Timeout = time.Second
	want.Cache.Memory = 64 << 20
	want.Log.Access = "false"
	tests := map[string]config.Sources{
		"file": {File: writeFile(t, `
chain: {nodes: ["http://a:1", "http://b:1"], comet: ["http://a:2", none], timeout: 1s}
cache: {memory: 64MiB}
log: {access: false}`)},
		"environment": {Environ: []string{
			"TIPCACHE_CHAIN_NODES=http://a:1, http://b:1", "TIPCACHE_CHAIN_COMET=http://a:2, none,",
			"TIPCACHE_CHAIN_TIMEOUT=1s", "TIPCACHE_CACHE_MEMORY=64MiB", "TIPCACHE_LOG_ACCESS=false",
		}},
	}
	for name, sources := range tests {
		expect.NoDiff(t, expect.Value(config.Load(sources))(t), want, "configuration from the %s", name)
	}
}

func TestRouteOverridesPartOfItsClass(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{File: writeFile(t, "routes: {validators: {stale_blocks: 2}}\n")}))(t)
	got := cfg.Routes["validators"].Over(cfg.Classes.Live)
	if got.StaleBlocks != 2 || got.ErrorBlocks != cfg.Classes.Live.ErrorBlocks {
		t.Errorf("class of validators = %d stale, %d error blocks; want 2 and %d", got.StaleBlocks, got.ErrorBlocks, cfg.Classes.Live.ErrorBlocks)
	}
}

func TestRouteHasEachSettingOfItsClass(t *testing.T) {
	class, route := reflect.TypeFor[cache.Policy](), reflect.TypeFor[config.Route]()
	for i := range class.NumField() {
		f := class.Field(i)
		got, _ := route.FieldByName(f.Name)
		if key := f.Tag.Get("yaml"); key != "-" && (got.Type != reflect.PointerTo(f.Type) || got.Tag.Get("yaml") != key) {
			t.Errorf("Route.%s = %v with key %q, want *%v with key %q", f.Name, got.Type, got.Tag.Get("yaml"), f.Type, key)
		}
	}
}

func TestAllProblemsAreReportedWithTheirKeys(t *testing.T) {
	_, err := config.Load(config.Sources{
		File: writeFile(t, `
listen: nonsense
chian: {id: x}
chain: {idd: 3, nodes: ["ftp://x"], timeout: soon, in_flight: -1, shape: round}
cache: {memory: 3XB}
http: {request: 8s}
classes: {live: {fresh_blocks: 9}}
routes: {validators: {fresh_bloks: 1}}
collections: {keys: [nobody, "`+digest+`"], store: mysql}
metadata: {provider: "alchemy:nowhere"}
grpc: {web_metadata: [x-own, X-Own, content-length]}
log: {level: loud}`),
		Environ: []string{"TIPCACHE_FOO=1"},
		Flags:   map[string][]string{"redis": {"http://x"}},
	})
	for _, want := range []string{
		"listen: ", "chian.id: no such setting", "chain.idd: no such setting", "chain.nodes[0]: \"ftp://x\"", `chain.timeout: "soon" is not a time`,
		`cache.memory: "3XB" is not a size`, "chain.comet: not set: ", "chain.shape: ", "chain.in_flight: -1 is negative",
		"http.request: no such setting", "classes.live: ", "routes.validators.fresh_bloks: no such setting",
		"collections.keys[0]: ", "collections.store: ", "metadata.provider: ", "log.level: ", "TIPCACHE_FOO: no such setting", "redis.url: ",
		`grpc.web_metadata[1]: "X-Own" is not a metadata name`, "grpc.web_metadata[2]: content-length is reserved",
	} {
		expect.Contains(t, fmt.Sprint(err), want, "error")
	}
}

func TestClashingRowsAreRefused(t *testing.T) {
	const pool = "pool /osmosis/gamm/v1beta1/pools/{pool_id:uint64} live cheap"
	for name, c := range map[string]struct {
		rows []string
		want string // about the last row, or "" for success
	}{
		"two paths":                   {[]string{pool, "pools /osmosis/gamm/v1beta1/pools live page"}, ""},
		"path before a pattern of it": {[]string{pool, "gamm /osmosis/gamm/{path=**} live page *"}, ""},
		"same name":                   {[]string{pool, "pool /osmosis/gamm/v1beta1/pools live page"}, "pool is the name of another row"},
		"same path":                   {[]string{pool, "again /osmosis/gamm/v1beta1/pools/{id} live cheap"}, "again is never used: pool, which comes first"},
		"pattern before a path of it": {[]string{"gamm /osmosis/gamm/{path=**} live page *", pool}, "pool is never used: gamm, which comes first"},
		"same method":                 {[]string{"a /x.y.Query/Z never cheap", "b /x.y.Query/Z live cheap"}, "b is never used: a names the same method"},
		"path of tipcache itself":     {[]string{"mine /live never cheap"}, "mine is never used: live, which comes first"},
		"replaced built-in row":       {[]string{"staking_pool /cosmos/staking/v1beta1/pool params cheap"}, ""},
		"name of a built-in row":      {[]string{"staking_pool /osmosis/pool live cheap"}, "staking_pool is the name of the built-in row of /cosmos/staking/v1beta1/pool"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "chain: {dialect: cosmos, nodes: [\"http://n\"], comet: [\"http://c\"], rows: [\"" + strings.Join(c.rows, "\", \"") + "\"]}\ncollections: {auth: none}"
			_, err := config.Load(config.Sources{File: writeFile(t, file)})
			if c.want != "" {
				c.want = fmt.Sprintf("chain.rows[%d]: %s", len(c.rows)-1, c.want)
			}
			wantError(t, err, c.want)
		})
	}
}

func TestStoryRowsAreComparedWithBuiltInStoryRows(t *testing.T) {
	for row, want := range map[string]string{
		"history /dkg/history live cheap round pagination": "", "pool /staking/pool live page": "", "staking_pool /dkg/pool live cheap": "",
		"pool /dkg/pool live cheap": "pool is the name of the built-in row of /staking/pool",
	} {
		cfg, err := config.Load(config.Sources{Flags: map[string][]string{"dialect": {"story"}}, Environ: []string{"TIPCACHE_CHAIN_ROWS=" + row}})
		wantError(t, err, want)
		if rows := cfg.ProxyOptions().Rows; want == "" && len(rows) != 1 {
			t.Errorf("rows of the proxy = %v, want %s", rows, row)
		}
	}
}

func TestTimeoutsFollowNodeTimeout(t *testing.T) {
	type times struct{ Read, Request, Drain time.Duration }
	for timeout, want := range map[string]times{
		"5s": {10 * time.Second, 15 * time.Second, 20 * time.Second},
		"1s": {10 * time.Second, 15 * time.Second, 20 * time.Second},
		"9s": {18 * time.Second, 27 * time.Second, 32 * time.Second},
	} {
		cfg, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_CHAIN_TIMEOUT=" + timeout}})
		if got := (times{cfg.Cache.Flight, cfg.HTTP.RequestTimeout, cfg.HTTP.Drain}); err != nil || got != want {
			t.Errorf("with chain.timeout %s they are %v, want %v: %v", timeout, got, want, err)
		}
	}
}

func TestValuesAreWithinTheirBounds(t *testing.T) {
	tests := []struct{ variable, want string }{
		{"CHAIN_MAX_BLOCK_AGE=0s", "TIPCACHE_CHAIN_MAX_BLOCK_AGE: chain.max_block_age: 0s is not positive"},
		{"CHAIN_TIMEOUT=50ms", "redis.timeout: 100ms must be shorter than chain.timeout (50ms)"},
		{"CHAIN_IN_FLIGHT=-1", "TIPCACHE_CHAIN_IN_FLIGHT: chain.in_flight: -1 is negative"},
		{"CACHE_MEMORY=1KiB", "TIPCACHE_CACHE_MEMORY: cache.memory: 1KiB is less than 1MiB"},
		{"REDIS_TIMEOUT=3s", "TIPCACHE_REDIS_TIMEOUT: redis.timeout: 3s must be shorter than the lease of a read (3s)"},
		{"CHAIN_DIALECT=klingon", `TIPCACHE_CHAIN_DIALECT: chain.dialect: "klingon" is none of story, cosmos`},
		{"INDEX_FROM=-1", ""}, // the index is off
		{"LOG_ACCESS=1.5", `TIPCACHE_LOG_ACCESS: log.access: "1.5" is not true, false, or a share such as 0.01`},
		{"LOG_ACCESS=0.01", ""},
		{"LOG_ACCESS=nan", `TIPCACHE_LOG_ACCESS: log.access: "nan" is not true, false, or a share such as 0.01`},
		{"INDEX_NETWORK=custom", `TIPCACHE_INDEX_NETWORK: index.network: "custom" is neither story nor aeneid; another network is a list: chain id, and addresses of IPAssetRegistry, LicensingModule and DisputeModule`},
		{"INDEX_NETWORK=1,2", "TIPCACHE_INDEX_NETWORK: index.network: 2 items, want 4: chain id, and addresses of IPAssetRegistry, LicensingModule and DisputeModule"},
		{"INDEX_NETWORK=0,1,2,3", `TIPCACHE_INDEX_NETWORK: index.network: "0" is not the chain id of a network`},
		{"INDEX_NETWORK=aeneid", ""},
	}
	for _, tt := range tests {
		_, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_" + tt.variable}})
		if got := fmt.Sprint(err); tt.want != "" && got != tt.want || tt.want == "" && err != nil {
			t.Errorf("error for %s = %s, want %s", tt.variable, got, tt.want)
		}
	}
}

func TestShareOfLoggedRequests(t *testing.T) {
	for text, want := range map[string]record.Options{"true": {}, "false": {OnlyFailures: true, SkipLog: 1}, "0.25": {SkipLog: 0.75}} {
		got := expect.Value(config.Load(config.Sources{Environ: []string{"TIPCACHE_LOG_ACCESS=" + text}}))(t).ProxyOptions().Web.Record
		if got.OnlyFailures != want.OnlyFailures || got.SkipLog != want.SkipLog {
			t.Errorf("log.access %s: OnlyFailures = %t, SkipLog = %v; want %t and %v", text, got.OnlyFailures, got.SkipLog, want.OnlyFailures, want.SkipLog)
		}
	}
}

func TestConfiguredCollectionsNeedKeysOrNoAuth(t *testing.T) {
	tests := []struct {
		name  string
		flags map[string][]string
		ok    bool
	}{
		{"store without a key", map[string][]string{"store": {"sqlite:x.db"}}, false},
		{"store with a key", map[string][]string{"store": {"sqlite:x.db"}, "api-key-sha256": {digest}}, true},
		{"store with auth none", map[string][]string{"store": {"sqlite:x.db"}, "collections-auth": {"none"}}, true},
	}
	for _, test := range tests {
		if _, err := config.Load(config.Sources{Flags: test.flags}); (err == nil) != test.ok {
			t.Errorf("%s: error = %v, want success %t", test.name, err, test.ok)
		}
	}
}

func TestSecretsAreNotInErrors(t *testing.T) {
	_, err := config.Load(config.Sources{Flags: map[string][]string{
		"redis": {"http://user:hunter2@x"}, "metadata": {"alchemy:ftp://x/hunter2"}, "store": {"mysql://u:hunter2@x"},
	}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v, want one without the password", err)
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	if _, err := config.Load(config.Sources{File: filepath.Join(t.TempDir(), "none.yaml")}); err == nil {
		t.Error("Load of a missing file = nil, want an error")
	}
}

func TestUnknownSettingIsAProblemEvenWhenEmpty(t *testing.T) {
	tests := map[string]config.Sources{
		"tipcache.yaml:1: chian: no such setting": {File: writeFile(t, "chian:\n")},
		`TIPCACHE_CHAIN_NODES: chain.nodes[1]: the value is not`: {
			File: writeFile(t, "chain: {nodes: [http://a, http://b]}"), Environ: []string{"TIPCACHE_CHAIN_NODES=http://a,bad"},
		},
		"tipcache.yaml:1: log.levl: no such setting":                        {File: writeFile(t, "log: {levl: {}}\n")},
		"TIPCACHE_ROUTES: routes: only a file can hold":                     {Environ: []string{"TIPCACHE_ROUTES=x"}},
		"--redis: redis.url: expected a redis://, rediss:// or unix:// URL": {Flags: map[string][]string{"redis": {""}}},
		`redis.url: unknown parameter "mastername"`:                         {Flags: map[string][]string{"redis": {"redis://a,b?mastername=m"}}},
		"redis.url: expected true or false for the parameter cluster":       {Flags: map[string][]string{"redis": {"redis://a?cluster=yes"}}},
		"TIPCACHE_CHAIN_TIMEOUT: chain.timeout: \"\" is not a time such":    {Environ: []string{"TIPCACHE_CHAIN_TIMEOUT="}},
	}
	for want, sources := range tests {
		_, err := config.Load(sources)
		wantError(t, err, want)
	}
}

func TestEmptyPathOfSecretFileIsIgnored(t *testing.T) {
	cfg, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_REDIS_URL=redis://h", "TIPCACHE_REDIS_URL_FILE="}})
	if err != nil || cfg.Redis.URL != "redis://h" {
		t.Errorf("redis.url = %q, %v; want redis://h", cfg.Redis.URL, err)
	}
}

func TestParametersOfRedisAreAccepted(t *testing.T) {
	expect.Value(config.Load(config.Sources{Flags: map[string][]string{"redis": {"redis://a?master_name=m&sentinel_username=u&sentinel_password=p&db=1"}}}))(t)
}

func TestSizes(t *testing.T) {
	tests := map[string]config.Bytes{"0": 0, "1024": 1024, "64KiB": 64 << 10, "2 GiB": 2 << 30, "5B": 5}
	for text, want := range tests {
		var got config.Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("UnmarshalText(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5MiB", "99999999999GiB"} {
		if err := new(config.Bytes).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("UnmarshalText(%q) = nil, want an error", text)
		}
	}
}

func TestNoNodeMeansNoHeightSource(t *testing.T) {
	for _, sources := range []config.Sources{
		{Environ: []string{"TIPCACHE_CHAIN_NODES=none"}},
		{Environ: []string{"TIPCACHE_CHAIN_NODES=none", "TIPCACHE_CHAIN_ID=story-1", "TIPCACHE_REDIS_URL=redis://host"}},
	} {
		cfg, err := config.Load(sources)
		if err != nil || len(cfg.Chain.Nodes)+len(cfg.Chain.Comet) != 0 {
			t.Errorf("nodes and CometBFT with %q = %q and %q, %v; want none", sources.Environ, cfg.Chain.Nodes, cfg.Chain.Comet, err)
		}
	}
	sources := config.Sources{Environ: []string{"TIPCACHE_CHAIN_NODES=none", "TIPCACHE_REDIS_URL=redis://host"}}
	_, err := config.Load(sources) // nothing names the chain
	wantError(t, err, "chain.id")
}

func TestWithoutNodesNoNodeAPIIsNeeded(t *testing.T) {
	tests := []struct {
		name, problem string
		flags         map[string][]string
	}{
		{"no API", "", map[string][]string{"node": {"none"}, "comet": {"none"}, "grpc": {"none"}}},
		{"CometBFT without a node", "chain.comet: 1 addresses for 0 nodes", map[string][]string{"node": {"none"}, "comet": {"http://127.0.0.1:26657"}}},
		{"RPC without CometBFT", "rpc.listen: chain.comet has no address", map[string][]string{"comet": {"none"}, "rpc-listen": {"127.0.0.1:0"}}},
		{"gRPC without CometBFT and gRPC", "grpc.listen: neither", map[string][]string{"comet": {"none"}, "grpc-listen": {"127.0.0.1:0"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(config.Sources{Flags: tt.flags})
			wantError(t, err, tt.problem)
		})
	}
}
