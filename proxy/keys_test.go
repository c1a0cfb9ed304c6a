package proxy_test

import (
	"crypto/sha256"
	"net/http"
	"testing"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
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
		expect.Equal(t, s.statusWith(t, key), http.StatusOK, "key %q: status", key)
	}
}
