package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

const address = "0x77319B4031e6eF1250907aa00018B8B1c67a244b"

var keyDigest = strings.Repeat("0f", 32)

// wrongSettings are settings that both the chart and the program refuse. Each is added to the smallest tier: a path of the
// configuration file, and its value in YAML.
var wrongSettings = []struct{ path, value string }{
	{"access", `[forbid /staking/*]`}, {"access", `[deny]`}, {"access", `["limit 5 /staking/*"]`}, {"access", `["limit 0 tx_search"]`}, {"access", `["cost 0 tx_search"]`}, {"access", `["limit 5/s cost 0 tx_search"]`}, {"access", `["limit 5/s burst 0 tx_search"]`}, {"access", `["allow cost many tx_search"]`}, {"access", `["limit 5/s burst 5"]`}, {"access", `["deny /staking/{id}"]`}, {"access", `deny staking/pool/x`},
	{"cache.memory", `3XB`}, {"cache.memory", `64KiB`}, {"cache.memory", `1024`}, {"cache.memory", `-1`},
	{"chain.auth", `maybe`}, {"chain.auth", `keys`},
	{"chain.comet", `[]`}, {"chain.comet", `[node:26657]`}, {"chain.comet", `["http://a:26657", "http://b:26657"]`}, {"chain.comet", `["http://a:99999"]`}, {"chain.comet", `["http://a:26657?x=1"]`},
	{"chain.dialect", `klingon`},
	{"chain.grpc", `[node]`}, {"chain.grpc", `["https://node:9090/path"]`}, {"chain.grpc", `["a:9090", "b:9090"]`}, {"chain.grpc", `["node:90900"]`},
	{"chain.in_flight", `-1`}, {"chain.in_flight", `many`},
	{"chain.max_block_age", `0s`}, {"chain.max_block_age", `30`},
	{"chain.max_tx_bytes", `0`}, {"chain.max_tx_bytes", `15MiB`}, {"chain.max_tx_bytes", `auto`},
	{"chain.nodes", `["node:1317"]`}, {"chain.nodes", `["ftp://node"]`}, {"chain.nodes", `["http://node:1317?x=1"]`}, {"chain.nodes", `["http://user:p@ss@node:1317"]`}, {"chain.nodes", `["http://node:70000"]`}, {"chain.nodes", `["http://node prio 1"]`}, {"chain.nodes", `["http://node header X-Key"]`}, {"chain.nodes", `["http://node priority 0"]`},
	{"chain.post_rate", `50`}, {"chain.post_rate", `0`},
	{"chain.rows", `[pool /pool]`}, {"chain.rows", `[pool pool live cheap]`}, {"chain.rows", `[pool /pool sometimes cheap]`}, {"chain.rows", `[pool /pool live dear]`},
	{"chain.shape", `round`}, {"chain.timeout", `soon`}, {"chain.timeout", `50ms`}, {"chain.unknown_paths", `ignore`},
	{"classes.live.fresh_blocks", `-1`}, {"classes.live.fresh_blocks", `9`}, {"classes.live.fresh", `0s`}, {"classes.negative", `0s`}, {"classes.params.stale_blocks", `50000`}, {"routes.validators.fresh_bloks", `1`}, {"classes.live.error_blocks", `0`}, {"classes.live.fresh", `1m`}, {"classes.params.stale_if_error", `19m`}, {"routes.validators", `{fresh_blocks: 9, stale_blocks: 2}`}, {"routes.validators", `{stale: 1m, stale_if_error: 10s}`},
	{"collections.auth", `open`}, {"collections.auth", `keys`}, {"collections", `{rate: 300/s}`}, {"collections.keys", `[nobody]`}, {"collections.keys", `["web:` + keyDigest + `:5"]`}, {"collections.keys", `["web:` + keyDigest + `:0"]`}, {"collections.keys", `["my key:` + keyDigest + `"]`},
	{"collections", `{auth: none, store: mysql}`}, {"collections", `{auth: none, store: "sqlite:"}`}, {"collections", `{auth: none, store: "https:/user:pass@store"}`}, {"collections", `{auth: none, store: "postgres://user:p@ss@store/tipcache"}`}, {"collections", `{auth: none, rate: 300}`}, {"collections", `{auth: none, public_url: api.example.org}`},
	{"grpc.web_metadata", `[X-Own]`}, {"grpc.web_metadata", `[content-length]`},
	{"http.client_connections", `-1`}, {"http.client_streams", `0`}, {"http.max_connections", `-1`}, {"http.max_streams", `0`}, {"http.idle_timeout", `0s`},
	{"http.cors_origins", `[app.example]`}, {"http.cors_origins", `["https://app.example/"]`}, {"http.cors_origins", `["https://App.example"]`}, {"http.cors_origins", `["https://app.example:443"]`}, {"http.cors_origins", `["*", "https://app.example"]`}, {"http.cors_origins", `["https://*.*.example"]`}, {"http.cors_origins", `["http://*.app.example"]`}, {"http.cors_origins", `[]`}, {"http.cors_origins", `["ws://app.example"]`},
	{"http.fast_lane", `maybe`}, {"http.session_cookie", `1h`},
	{"http.mounts", `[{path: api}]`}, {"http.mounts", `[{path: /api/}]`}, {"http.mounts", `[{path: "/a b"}]`}, {"http.mounts", `[{path: /api/v4}]`}, {"http.mounts", `[{path: /readyz}]`}, {"http.mounts", `[{path: /api, shape: round}]`}, {"http.mounts", `[{path: /api, fallback: "node:80"}]`}, {"http.mounts", `[{path: /api, fallback: "http://u:p@node"}]`}, {"http.mounts", `[{path: /api, fallback: "http://node?x"}]`}, {"http.mounts", `[{path: /api, always: [/x]}]`}, {"http.mounts", `[{path: /api, pass_authorization: true}]`}, {"http.mounts", `[{path: /api}, {path: /api}]`},
	{"http.proxy_protocol", `maybe`}, {"http.proxy_protocol", `required`},
	{"http.rate", `50`}, {"http.rate", `50/d`}, {"http.rate", `50/s burst`}, {"http.rate", `0/s`}, {"http.rate", `50/s burst 0`}, {"http.rate", `fast`}, {"http.rate", `""`},
	{"http.tls", `{cert: /tls/tls.crt}`}, {"http.tls", `{key: /tls/tls.key}`},
	{"http.trusted_proxies", `[10.0.0.0/33]`}, {"http.trusted_proxies", `[10.0.0]`}, {"http.trusted_proxies", `[300.0.0.0/8]`}, {"http.trusted_proxies", `[ingress]`}, {"http.trusted_proxies", `"10.0.0.0/8,172.16.0.0/12"`}, {"http.trusted_proxies", `["fd00::/129"]`}, {"http.trusted_proxies", `[":::"]`}, {"http.trusted_proxies", `["1:2:3:4:5:6:7:8:9"]`},
	{"index", `{enabled: yes please}`}, {"index.network", `custom`}, {"index.network", `[1, 2]`}, {"index.network", `[0, "` + address + `", "` + address + `", "` + address + `"]`}, {"index.network", `[1, "0x12", "` + address + `", "` + address + `"]`},
	{"log.access", `1.5`}, {"log.access", `sometimes`}, {"log.format", `xml`}, {"log.level", `loud`}, {"log.level", `""`},
	{"metadata.provider", `opensea:https://x`}, {"metadata.provider", `alchemy:nowhere`}, {"metadata.provider", `"alchemy:https://user:p@ss@provider"`},
	{"redis", `{url: "http://redis"}`}, {"redis", `{url: "redis://:p@ss@redis"}`}, {"redis", `{url: "redis:/:pass@redis"}`}, {"redis", `{url: "redis://redis:99999"}`}, {"redis", `{url: "redis://redis?mastername=m"}`}, {"redis", `{url: "redis://redis?cluster=yes"}`}, {"redis.seal_key", `short`}, {"redis.timeout", `0s`}, {"redis.timeout", `100`}, {"redis.timeout", `3s`}, {"redis", `{url: "redis://redis", timeout: 5s}`},
	{"rpc.methods", `[Tx-Status]`},
	{"tracing.endpoint", `collector:4318`}, {"tracing.ratio", `2`}, {"tracing.ratio", `-0.1`}, {"tracing.ratio", `most`},
	{"chian", `{id: x}`}, {"http.request", `8s`},
}

// rightSettings are settings that both accept.
var rightSettings = []struct{ path, value string }{
	{"access", `["deny /metrics net_info dial_*", "limit 10/s burst 20 cost 5 tx_search /cosmos/tx/*", "cost 3 cosmos.bank.v1beta1.Query/*", "allow cost 2 *"]`}, {"access", `deny *`},
	{"cache.memory", `auto`}, {"cache.memory", `512MiB`}, {"cache.memory", `2 GiB`}, {"cache.memory", `2048KiB`}, {"cache.memory", `268435456`}, {"cache.memory", `268435456B`},
	{"chain.comet", `[none]`}, {"chain.comet", `none`}, {"chain.comet", `"https://user:p%40ss@node/rpc"`}, {"chain.dialect", `""`}, {"chain.grpc", `["node:9090"]`}, {"chain.grpc", `["https://[fd00::1]:9090"]`}, {"chain.grpc", `[]`}, {"chain.in_flight", `8`},
	{"chain.max_tx_bytes", `14MiB`}, {"chain.max_tx_bytes", `512KiB`}, {"chain.max_tx_bytes", `1000000`},
	{"chain.nodes", `["https://node/base priority 1 header X-Key=a=b header X-Two=2"]`}, {"chain.nodes", `["http://[fd00::1]:1317"]`},
	{"chain.post_rate", `5/m`}, {"access", `["limit 5/s burst 10 cost 2 cost", "deny cost 0", "allow burst 0"]`}, {"http.trusted_proxies", `["::2:3:4:5:6:7:8", "1:2:3:4:5:6:7::/112", "::ffff:10.0.0.1"]`}, {"chain.rows", `["pool /osmosis/pools/{id:uint64} live cheap", "clob /dydxprotocol.clob.Query/StatefulOrder never cheap", "gamm /osmosis/gamm/{path=**} live page *"]`}, {"chain.timeout", `1m30s`}, {"chain.timeout", `1.5s`},
	{"classes.live", `{fresh_blocks: 5, stale_blocks: 5, error_blocks: 5}`}, {"classes.live", `{stale_blocks: 1000, fresh: 15s, stale_if_error: 15s}`}, {"classes.params", `{stale_blocks: 40000, fresh: 20m, stale: 24h}`}, {"classes.params", `{error_blocks: 600, stale: 60s}`}, {"routes.validators", `{stale_blocks: 2}`},
	{"collections", `{auth: none, store: "postgres://tipcache:p%40ss@postgres/tipcache", rate: 300/s burst 600, public_url: "https://api.example.org"}`}, {"collections.keys", `["web:` + keyDigest + `:1000/h"]`}, {"collections", `{auth: none, store: "postgresql://h/db?sslmode=disable"}`}, {"collections", `{auth: none, store: "sqlite:/a@b"}`}, {"collections", `{auth: none, rate: 0}`},
	{"grpc.web_metadata", `[x-own]`}, {"http.rate", `0`}, {"http.rate", `50/s`}, {"http.rate", `50/s burst 200`},
	{"http.cors_origins", `["https://app.example", "http://localhost:3000", "chrome-extension://abc", "https://*.app.example"]`}, {"http.cors_origins", `none`}, {"http.cors_origins", `["*"]`},
	{"http.mounts", `[{path: /}, {path: /api/x, shape: node, fallback: "https://indexer:8443/base", always: ["/staking/validators/{v}"], pass_authorization: true}]`},
	{"http", `{proxy_protocol: required, trusted_proxies: [10.0.0.0/8, 192.0.2.1, "fd00::/8", "::1"]}`}, {"http.trusted_proxies", `10.0.0.0/8`}, {"http.max_connections", `0`}, {"http.idle_timeout", `1h`},
	{"http.tls", `{cert: /tls/tls.crt, key: /tls/tls.key}`},
	{"index.network", `[0x5ea, "` + address + `", "` + address + `", "` + address + `"]`}, {"index.network", `aeneid`}, {"log.access", `0.01`}, {"log.access", `false`}, {"log", `{level: warn, format: json}`}, {"metadata.provider", `"blockscout:https://scan.example.org"`}, {"metadata.provider", `none`}, {"metadata.provider", `"alchemy:https://user:p%40ss@provider/key?a=b"`},
	{"redis", `{url: "rediss://user:p%40ss@a:6379,b:6379/0?cluster=true", timeout: 1500ms, seal_key: 0123456789abcdef}`}, {"redis.url", `none`}, {"redis.url", `"redis://a:6379,b:65535"`}, {"redis.timeout", `2.999s`}, {"rpc.methods", `[tx_status]`}, {"tracing", `{endpoint: "http://otel:4318/v1/traces", ratio: 0.5}`},
}

// withSetting returns the values of the smallest tier with one setting more, and its configuration file alone.
func withSetting(t *testing.T, dir, path, value string) (values, file string) {
	t.Helper()
	all := read(t, "helm/tipcache/ci/tier-values.yaml")
	section, _ := all["config"].(map[string]any)
	settings := section
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		next, ok := section[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			section[name] = next
		}
		section = next
	}
	var v any
	expect.NoError(t, yaml.Unmarshal([]byte(value), &v))
	section[names[len(names)-1]] = v
	values, file = filepath.Join(dir, "values.yaml"), filepath.Join(dir, "tipcache.yaml")
	expect.NoError(t, os.WriteFile(values, expect.Value(yaml.Marshal(all))(t), 0o600))
	expect.NoError(t, os.WriteFile(file, expect.Value(yaml.Marshal(settings))(t), 0o600))
	return values, file
}

// inChart returns why the chart refuses values, or "".
func inChart(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(helmPath(t), append([]string{"template", "test", "helm/tipcache", "--kube-version", kubeVersion}, args...)...).CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

func TestChartAndProgramRefuseTheSameSettings(t *testing.T) {
	all := t.TempDir()
	compare := func(name, path, value string, valid bool) {
		dir := expect.Value(os.MkdirTemp(all, ""))(t)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, file := withSetting(t, dir, path, value)
			problem := ""
			if _, err := config.Load(config.Sources{File: file}); err != nil {
				problem = err.Error()
			}
			name := path[strings.LastIndex(path, ".")+1:]
			for by, problem := range map[string]string{"config.Load": problem, "helm template": inChart(t, "-f", values)} {
				if valid && problem != "" {
					t.Errorf("%s = %s, want success", by, problem)
				} else if !valid && !strings.Contains(problem, name) {
					t.Errorf("%s = %q, want an error that names %s", by, problem, name)
				}
			}
		})
	}
	helmPath(t)
	for _, s := range wrongSettings {
		compare(s.path+" cannot be "+s.value, s.path, s.value, false)
	}
	for _, s := range rightSettings {
		compare(s.path+" can be "+s.value, s.path, s.value, true)
	}
}

func TestChartRefusesValuesThatPreventServing(t *testing.T) {
	for values, want := range map[string]string{
		"ports.admin=8080": "each port needs its own number", "ports.rpc=8081": "each port needs its own number",
		"secret.env.TIPCACHE_ADMIN_TOKEN=null":                     "secret.env needs TIPCACHE_ADMIN_TOKEN",
		"secret.env.TIPCACHE_FOO=foo":                              "TIPCACHE_FOO",
		"secret.env.TIPCACHE_LISTEN=listen":                        "TIPCACHE_LISTEN",
		"env[0].name=TIPCACHE_LOG_LEVL,env[0].value=warn":          "/env/0/name",
		"config.chain.comet={none},ports.rpc=26657":                "ports.rpc needs an address",
		"config.chain.comet={none},ports.grpc=9090":                "ports.grpc needs an address",
		"config.chain.comet={none},config.redis.url=redis://redis": "config.chain.id is needed",
		"config.index.enabled=true,config.collections.auth=none,config.collections.store=https://x.example/api/v4":                      "config.index.enabled",
		"gateway.enabled=true,gateway.hosts={api.example.org}":                                                                          "gateway.parentRefs is needed",
		"gateway.enabled=true,gateway.parentRefs[0].name=public":                                                                        "gateway.hosts is needed",
		"gateway.enabled=true,gateway.parentRefs[0].name=public,gateway.hosts={a.example},gateway.rpcHosts={b.example}":                 "gateway.rpcHosts needs ports.rpc",
		"gateway.enabled=true,gateway.parentRefs[0].name=public,gateway.hosts={a.example},gateway.rpcHosts={a.example},ports.rpc=26657": "only one of hosts, rpcHosts and grpcHosts",
		"gateway.enabled=true,gateway.parentRefs[0].name=public,gateway.hosts={a.example},tlsSecret=certificate":                        "gateway.backendTLS.hostname is needed",
		"gateway.timeout=10s": "/gateway/timeout",
	} {
		problem := inChart(t, "-f", "helm/tipcache/ci/tier-values.yaml", "--set", values)
		expect.Contains(t, problem, want, "helm template with %s", values)
	}
	for _, values := range []string{
		"secret.env.TIPCACHE_COLLECTIONS_KEYS=keys,config.collections.rate=300/s", "secret.env.TIPCACHE_CHAIN_NODES=nodes,config.chain.comet={http://a,http://b}",
		"env[0].name=GOGC,env[0].value=off", "config.chain.comet={none},ports.grpc=9090,config.chain.grpc={node:9090}",
	} {
		expect.Equal(t, inChart(t, "-f", "helm/tipcache/ci/tier-values.yaml", "--set", values), "", "problem of helm template with %s", values)
	}
}

func TestChartAcceptsTheVariablesOfExistingSettings(t *testing.T) {
	ofTheChart := []string{"listen", "admin", "rpc.listen", "grpc.listen", "http.drain_delay"}
	onlyInFiles := []string{"routes", "http.mounts"}
	var want []string
	for _, k := range config.Keys() {
		if slices.Contains(ofTheChart, k.Path) || slices.Contains(onlyInFiles, k.Path) {
			continue
		}
		if want = append(want, k.Env); k.Secret {
			want = append(want, k.Env+"_FILE")
		}
	}
	got := words(at(read(t, "helm/tipcache/values.schema.json"), "definitions", "variable", "enum"))
	expect.NoDiff(t, got, want, "variables in helm/tipcache/values.schema.json")
}

func TestGatewayRoutesReachEachPort(t *testing.T) {
	values := []string{"-f", "helm/tipcache/ci/production-values.yaml"}
	manifests := render(t, "helm/tipcache", values...)
	for route, want := range map[string]string{
		"HTTPRoute test-tipcache":      "[api.example.org] test-tipcache 80 map[request:0s]",
		"HTTPRoute test-tipcache-rpc":  "[rpc.example.org] test-tipcache 26657 map[request:0s]",
		"GRPCRoute test-tipcache-grpc": "[grpc.example.org] test-tipcache 9090 <nil>", // the API has no timeouts for gRPC
	} {
		spec := at(manifests[route], "spec")
		got := fmt.Sprintf("%v %v %v %v", at(spec, "hostnames"), at(spec, "rules", "backendRefs", "name"), at(spec, "rules", "backendRefs", "port"), at(spec, "rules", "timeouts"))
		expect.Equal(t, got, want, "%s", route)
		expect.Equal(t, fmt.Sprint(at(spec, "parentRefs")), "[map[name:public namespace:gateways]]", "Gateways of %s", route)
	}
	if _, ok := manifests["BackendTLSPolicy test-tipcache"]; ok {
		t.Error("chart without TLS has a BackendTLSPolicy")
	}
	omitted := render(t, "helm/tipcache", append(values, "--set", "gateway.timeout=")...)
	expect.Equal(t, fmt.Sprint(at(omitted["HTTPRoute test-tipcache"], "spec", "rules", "timeouts")), "<nil>", "omitted timeouts")

	values = append(values, "--set", "tlsSecret=certificate,gateway.backendTLS.hostname=tipcache.example")
	policy := func(args ...string) string {
		return fmt.Sprint(at(render(t, "helm/tipcache", append(values, args...)...)["BackendTLSPolicy test-tipcache"], "spec"))
	}
	expect.Equal(t, policy(), "map[targetRefs:[map[group: kind:Service name:test-tipcache]] validation:map[hostname:tipcache.example wellKnownCACertificates:System]]", "policy")
	expect.Contains(t, policy("--set", "gateway.backendTLS.caConfigMap=ca"), "caCertificateRefs:[map[group: kind:ConfigMap name:ca]] hostname:tipcache.example", "policy with a CA")
}
