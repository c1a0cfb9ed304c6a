package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
)

func keyOf(name, secret string) limits.Key {
	return limits.Key{Name: name, SHA256: sha256.Sum256([]byte(secret))}
}

func (s *listService) statusWith(t *testing.T, key string) int {
	t.Helper()
	res, _ := s.post(t, `{}`, "X-Api-Key", key)
	return res.StatusCode
}

func TestAnyKeyOfTheSetOpens(t *testing.T) {
	s := startList(t, listing.Options{}, withKeys(keyOf("a", "one"), keyOf("a", "two"), keyOf("b", "three")))
	for key, want := range map[string]int{
		"one": http.StatusOK, "two": http.StatusOK, "three": http.StatusOK,
		"four": http.StatusUnauthorized, "One": http.StatusUnauthorized, "": http.StatusUnauthorized,
	} {
		if got := s.statusWith(t, key); got != want {
			t.Errorf("key %q: status %d, want %d", key, got, want)
		}
	}
}

func TestKeysChangeWhileServing(t *testing.T) {
	s := startList(t, listing.Options{}, withKeys(keyOf("a", "old")))
	s.proxy.SetKeys([]limits.Key{keyOf("a", "new")})
	if got := s.statusWith(t, "old"); got != http.StatusUnauthorized {
		t.Errorf("the old key: status %d", got)
	}
	if got := s.statusWith(t, "new"); got != http.StatusOK {
		t.Errorf("the new key: status %d", got)
	}
}

func TestWithoutKeysNobodyMayAsk(t *testing.T) {
	s := startList(t, listing.Options{}, withKeys())
	for _, key := range []string{"", "x"} {
		if got := s.statusWith(t, key); got != http.StatusUnauthorized {
			t.Errorf("key %q: status %d", key, got)
		}
	}
}

func TestWithoutAuthAnybodyMayAsk(t *testing.T) {
	s := startList(t, listing.Options{NoAuth: true})
	for _, key := range []string{"", "x"} {
		if got := s.statusWith(t, key); got != http.StatusOK {
			t.Errorf("key %q: status %d", key, got)
		}
	}
}

func TestLogNamesTheTenantAndNeverTheKey(t *testing.T) {
	var log bytes.Buffer
	s := startList(t, listing.Options{}, withKeys(keyOf("acme", "open sesame")), func(o *proxy.Options) {
		o.Web.AccessLog, o.Web.Logger = &log, slog.New(slog.NewJSONHandler(&log, nil))
	})
	s.statusWith(t, "open sesame")
	s.statusWith(t, "open barley")
	s.Close() // ends the requests, and thereby what they log
	if !strings.Contains(log.String(), `"tenant":"acme"`) {
		t.Errorf("no tenant in %s", log.String())
	}
	if strings.Contains(log.String(), "open ") {
		t.Errorf("a key in %s", log.String())
	}
}
