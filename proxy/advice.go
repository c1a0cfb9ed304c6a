package proxy

import (
	"strings"

	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/state"
)

// RowFor returns the line of chain.rows that stops caching a key's path or method. It returns "" for keys that do not
// read the state.
func (s *Server) RowFor(key string) string {
	if method, ok := state.MethodIn(key); ok {
		return cosmos.RowOfMethod(method)
	}
	if h, ok := s.now()[0].chainAPI.(*cosmos.Handler); ok {
		return h.RowOfPath(key)
	}
	return ""
}

// Varies reports whether nodes answer reads of a cache key differently although the state is the same.
func Varies(key string) bool {
	method, ok := state.MethodIn(key)
	if !ok {
		method, _, _ = strings.Cut(key, "?")
	}
	method, _, _ = strings.Cut(method, "@")
	return cosmos.Varies(method)
}
