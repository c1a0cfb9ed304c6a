package proxy_test

import (
	"crypto/sha256"
	"net/http"
	"testing"

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

func TestWithoutAuthEveryClientIsServed(t *testing.T) {
	s := startList(t, listing.Options{NoAuth: true})
	for _, key := range []string{"", "x"} {
		if got := s.statusWith(t, key); got != http.StatusOK {
			t.Errorf("key %q: status %d", key, got)
		}
	}
}
