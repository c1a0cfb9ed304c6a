package cosmos

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// SelectRoute selects the keys of one row: those at explicit heights too.
func (h *Handler) SelectRoute(name string) (cache.Selection, error) {
	for _, m := range h.index.rows {
		if m.Name != name {
			continue
		}
		return m.selection(), nil
	}
	return cache.Selection{}, fmt.Errorf("no route is called %q", web.Short(name))
}

// selection is the keys of a row. Where it takes the rest of a path they are known by what comes before.
func (m *matcher) selection() cache.Selection {
	text := keyPrefix
	for _, s := range m.path {
		switch {
		case s.rest:
			before, after, _ := strings.Cut(text+"/", "*")
			return cache.Selection{Prefix: before, Contains: after}
		case s.literal == "":
			text += "/*"
		default:
			text += "/" + s.literal
		}
	}
	return cache.Selection{Path: text}
}

// SelectAddress selects the keys that name an address, in capitals or not.
func (h *Handler) SelectAddress(text string) (cache.Selection, error) {
	canonical, _ := address(text)
	if canonical == "" || strings.ContainsAny(canonical, "/?@ ") {
		return cache.Selection{}, errors.New("expected an address")
	}
	return cache.Selection{Contains: canonical}, nil
}
