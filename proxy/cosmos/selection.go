package cosmos

import (
	"errors"
	"strings"

	"github.com/tipcache/tipcache/cache"
)

// SelectAddress selects the keys that name an address, in capitals or not.
func (h *Handler) SelectAddress(text string) (cache.Selection, error) {
	canonical, _ := address(text)
	if canonical == "" || strings.ContainsAny(canonical, "/?@ ") {
		return cache.Selection{}, errors.New("expected an address")
	}
	return cache.Selection{Contains: canonical}, nil
}
