package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	cfg.Warnings = nil // the file is overridden
	want.Chain.Nodes, want.Chain.Comet = []string{"https://user:p%20w@one", "http://two:1317"}, []string{"https://one/key/", "none"}
	want.Collections.Keys, want.Collections.Auth = []string{digest, other}, "keys"
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProblemsOfSecretFiles(t *testing.T) {
	there := writeFile(t, "a token that is long")
	tests := []struct {
		name    string
		environ []string
		want    string
	}{
		{"a file that is not there", []string{"TIPCACHE_ADMIN_TOKEN_FILE=" + filepath.Join(t.TempDir(), "x")}, "TIPCACHE_ADMIN_TOKEN_FILE: open /"},
		{"what is no secret has no file", []string{"TIPCACHE_LISTEN_FILE=" + there}, "TIPCACHE_LISTEN_FILE: no such setting"},
		{"a provider without its kind", []string{"TIPCACHE_METADATA_PROVIDER=http://127.0.0.1:1/x"}, "TIPCACHE_METADATA_PROVIDER: metadata.provider: expected alchemy:URL"},
		{"one of both is enough", []string{"TIPCACHE_ADMIN_TOKEN=another, long as well", "TIPCACHE_ADMIN_TOKEN_FILE=" + there}, "admin_token: both"},
	}
	for _, tt := range tests {
		_, err := config.Load(config.Sources{Environ: tt.environ})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
