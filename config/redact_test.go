package config_test

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
)

func TestRedactedConfigurationHasNoSecrets(t *testing.T) {
	cfg := config.Default()
	cfg.AdminToken, cfg.Redis.URL, cfg.Redis.SealKey = "secret-token-of-admin", "rediss://user:secret@redis:6379/0", "secret-seal-key-here"
	cfg.Chain.Nodes = []string{"https://user:secret@one/secret", "https://two priority 1 header X-Key=secret", "none"}
	cfg.Metadata.Provider = "alchemy:https://host.example/secret"
	cfg.Collections.Store = "postgres://user:secret@db/collections?password=secret"
	cfg.HTTP.Rate = "5/s"
	cfg.Collections.Keys = []string{"web:secret", "app:secret:100/s"}
	text, err := cfg.Redacted()
	if err != nil || strings.Contains(string(text), "secret") {
		t.Fatalf("Redacted = %v, %s\nwant no secret", err, text)
	}
	for _, want := range []string{
		"admin_token: '***'", "url: rediss://***@redis:6379/0\n", "store: postgres://***@db/collections\n", "seal_key: '***'", "- https://***@one\n", "- https://two\n", "- none\n",
		"provider: alchemy:https://host.example", "rate: 5/s", "memory: auto\n", "max_tx_bytes: 4MiB\n", "- web:***\n", "- app:***:100/s\n", "drain_delay: 0s",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("Redacted has no %q:\n%s", want, text)
		}
	}
}

func TestRedactedURLsOfDatabasesHaveNoPartOfAPassword(t *testing.T) {
	for _, store := range []string{"postgres://user/x:secret@db/d", "postgres://user:1/secret@db/d", "postgres://db/a/secret", "https://db/secret"} {
		cfg := config.Default()
		cfg.Collections.Store = store
		text, err := cfg.Redacted()
		if err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("Redacted with the store %s = %v, %s\nwant no secret", store, err, text)
		}
	}
}
