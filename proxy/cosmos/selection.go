package cosmos

import (
	"errors"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/dialect"
)

// SelectRoute selects the keys of one row: those at explicit heights too.
func (h *Handler) SelectRoute(name string) (cache.Selection, error) {
	return dialect.SelectRoute(h.rows, keyPrefix, name)
}

// SelectAddress selects the keys that name an address, in capitals or not.
func (h *Handler) SelectAddress(text string) (cache.Selection, error) {
	canonical, _ := address(text)
	if canonical == "" || strings.ContainsAny(canonical, "/?@ ") {
		return cache.Selection{}, errors.New("expected an address")
	}
	return cache.Selection{Contains: canonical}, nil
}
