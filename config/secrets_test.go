package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestSecretsAreReadFromFiles(t *testing.T) {
	other := "app:" + strings.Repeat("1", 64)
	cfg := expect.Value(config.Load(config.Sources{
		File: writeFile(t, "redis: {url: 'redis://file'}"),
		Environ: []string{
			"TIPCACHE_REDIS_URL_FILE=" + writeFile(t, "redis://user:p%20w@host\r\n"),
			"TIPCACHE_COLLECTIONS_KEYS_FILE=" + writeFile(t, "# the website\n"+digest+"\n\n  "+other+"\n"),
			"TIPCACHE_CHAIN_NODES_FILE=" + writeFile(t, "https://user:p%20w@one\nhttp://two:1317\n"),
			"TIPCACHE_CHAIN_COMET_FILE=" + writeFile(t, "https://one/key/\nnone\n"),
			"TIPCACHE_METADATA_PROVIDER_FILE=",
			"TIPCACHE_ADMIN_TOKEN=given in the variable",
		},
	}))(t)
	want := config.Default()
	want.Redis.URL, want.AdminToken = "redis://user:p%20w@host", "given in the variable"
	cfg.Warnings = nil // about the overridden file
	want.Chain.Nodes, want.Chain.Comet = []string{"https://user:p%20w@one", "http://two:1317"}, []string{"https://one/key/", "none"}
	want.Collections.Keys, want.Collections.Auth = []string{digest, other}, "keys"
	expect.NoDiff(t, cfg, want, "configuration")
}

func TestProblemsOfSecretFiles(t *testing.T) {
	file, long := writeFile(t, "a token that is long"), writeFile(t, "")
	expect.NoError(t, os.Truncate(long, 65<<20))
	tests := []struct {
		name    string
		environ []string
		want    string
	}{
		{"missing file", []string{"TIPCACHE_ADMIN_TOKEN_FILE=" + filepath.Join(t.TempDir(), "x")}, "TIPCACHE_ADMIN_TOKEN_FILE: open /"},
		{"empty file", []string{"TIPCACHE_REDIS_SEAL_KEY_FILE=" + writeFile(t, "\n")}, "is empty"},
		{"long file", []string{"TIPCACHE_ADMIN_TOKEN_FILE=" + long}, "is longer than"},
		{"file for a setting that is no secret", []string{"TIPCACHE_LISTEN_FILE=" + file}, "TIPCACHE_LISTEN_FILE: no such setting"},
		{"provider without kind", []string{"TIPCACHE_METADATA_PROVIDER=http://127.0.0.1:1/x"}, "TIPCACHE_METADATA_PROVIDER: metadata.provider: expected alchemy:URL"},
		{"value and file", []string{"TIPCACHE_ADMIN_TOKEN=another, long as well", "TIPCACHE_ADMIN_TOKEN_FILE=" + file}, "admin_token: both"},
	}
	for _, tt := range tests {
		_, err := config.Load(config.Sources{Environ: tt.environ})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error = %v, want one line with %q", tt.name, err, tt.want)
		}
	}
}

func TestLongFileIsNotReadIntoMemory(t *testing.T) {
	file := writeFile(t, "")
	expect.NoError(t, os.Truncate(file, 65<<20))
	_, err := config.Load(config.Sources{File: file})
	expect.Contains(t, fmt.Sprint(err), "is longer than", "error")
}

// YAML takes such a text for an alias, a tag, an anchor or a comment, so that there would be no secret.
func TestSecretThatYAMLDoesNotReadIsRefusedAndNotShown(t *testing.T) {
	for line, want := range map[string]string{
		"admin_token: *kL3xQuoted":                  "tipcache.yaml:2: no such anchor: quote a value that begins with *",
		"redis: {seal_key: !kL3xQuoted }":           "tipcache.yaml:2: redis.seal_key: no value: quote",
		"redis: {seal_key: &kL3xQuoted }":           "tipcache.yaml:2: redis.seal_key: no value: quote",
		"admin_token: #kL3xQuoted":                  "tipcache.yaml:2: admin_token: no value: quote",
		`chain: {nodes: ["https://user:kL3xQ"]}`:    "chain.nodes[0]: the value is not an http",
		`chain: {nodes: ["user:kL3xQ"]}`:            "chain.nodes[0]: the value is not an http",
		`chain: {nodes: ["node.example:1/kL3xQ"]}`:  `chain.nodes[0]: "node.example:1" is not an http`,
		`redis: {url: "redis:/u:kL3xQ@h"}`:          "redis.url: expected a redis://",
		`redis: {url: "redis:u:kL3xQ@h"}`:           "redis.url: expected a redis://",
		`redis: {url: "redis:/:kL3xQ/x://y"}`:       "redis.url: expected a redis://",
		`collections: {store: "https:/u:kL3xQ@h"}`:  "collections.store: expected sqlite:PATH",
		`index: {enabled: true, evm: ["a:b:kL3x"]}`: "index.evm[0]: the value is not an http",
	} {
		_, err := config.Load(config.Sources{File: writeFile(t, "listen: 127.0.0.1:0\n"+line+"\n")})
		wantError(t, err, want)
		if err != nil && strings.Contains(err.Error(), "kL3x") {
			t.Errorf("error of %s = %v, want one without the secret", line, err)
		}
	}
}

// A raw delimiter ends the user part early, so that the rest of the password would count as the host or the path.
func TestURLWithRawDelimiterInPasswordIsRefusedByNameAlone(t *testing.T) {
	const problem = "percent-encode @, /, ? and # in the user and the password, and @ anywhere else: %40, %2F, %3F and %23"
	for _, password := range []string{"77/Se@cret", "77/Secret", "77?Secret", "77#Secret", "Se@cret", "77@12/Secret", "/Secret", "77@Secret:1"} {
		for key, file := range map[string]string{
			"redis.url":         "redis: {url: 'redis://user:%s@redis.internal:6379/0'}",
			"collections.store": "collections: {auth: none, store: 'postgres://user:%s@db.internal/collections'}",
			"chain.nodes[0]":    "chain: {nodes: ['http://user:%s@node.internal:1317']}",
			"chain.comet[0]":    "chain: {comet: ['http://user:%s@node.internal:26657']}",
			"metadata.provider": "metadata: {provider: 'alchemy:https://user:%s@provider.internal/nft'}",
			"index.evm[0]":      "index: {enabled: true, evm: ['http://user:%s@evm.internal:8545']}",
			"tracing.endpoint":  "tracing: {endpoint: 'http://user:%s@traces.internal:4318'}",
		} {
			file = fmt.Sprintf(file, password)
			cfg, err := config.Load(config.Sources{File: writeFile(t, file)})
			if got := fmt.Sprint(err); !strings.Contains(got, key+": "+problem) || strings.Contains(got, "cret") || strings.Contains(got, "77") {
				t.Errorf("error of %s = %s, want %s: %s", file, got, key, problem)
			}
			text := expect.Value(cfg.Redacted())(t)
			if got := string(text); strings.Contains(got, "cret") || strings.Contains(got, "user:") {
				t.Errorf("Redacted of %s = %s, want no part of the password", file, got)
			}
		}
	}
}

func TestHostShowsNoPartOfAPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://user:secret@redis:6379/0": "redis:6379", "redis://a:1,b:2/0": "a:1,b:2", "http://node:1317": "node:1317", "unix://user:secret@/run/redis.sock": "local",
		"https://node/key priority 1 header X-Key=a@b": "node", "alchemy:https://provider/v3/key": "provider", "none": "?",
		"redis://user:77/secret@redis:6379": "?", "redis://user:77?secret@redis:6379": "?", "redis://user:77#secret@redis:6379": "?",
		"redis://user:77@8/secret@redis:6379": "?", "redis://user:a@77@redis:6379": "?", "redis://user:77 secret@redis:6379": "?",
	} {
		expect.Equal(t, config.Host(raw), want, "Host of %s", raw)
	}
}

func TestURLWithoutValueIsTheDefault(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{File: writeFile(t, "redis: {url: }\nmetadata: {provider: }\n")}))(t)
	if want := config.Default(); cfg.Redis.URL != want.Redis.URL || cfg.Metadata.Provider != want.Metadata.Provider {
		t.Errorf("URLs = %q, %q, want the defaults %q, %q", cfg.Redis.URL, cfg.Metadata.Provider, want.Redis.URL, want.Metadata.Provider)
	}
}

func TestSecretsMayBeEmptyOnPurpose(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{
		File:    writeFile(t, "admin_token: ''\nredis: {seal_key: \"\"}\ncollections: {auth: none, store_key: }\ntracing: {endpoint: null}\n"),
		Environ: []string{"TIPCACHE_COLLECTIONS_STORE_KEY=given in the variable"},
	}))(t)
	expect.Equal(t, cfg.Redis.SealKey+cfg.AdminToken+cfg.Tracing.Endpoint, "", "secrets")
}
