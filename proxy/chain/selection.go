package chain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
)

// SelectRoute selects the keys of one route: those at explicit heights too.
func (h *Handler) SelectRoute(name string) (cache.Selection, error) {
	for _, rt := range routes {
		if rt.Name != name {
			continue
		}
		segments := strings.Split(string(h.o.Shape)+rt.Pattern, "/")
		for i, segment := range segments {
			if strings.HasPrefix(segment, ":") {
				segments[i] = "*"
			}
		}
		return cache.Selection{Path: strings.Join(segments, "/")}, nil
	}
	return cache.Selection{}, fmt.Errorf("no route is called %q", web.Short(name))
}

// SelectAddress selects the keys that name an address, or a public key: of
// queries about it, of the collection and of its metadata. The address may be
// written in any of its forms. What only lists it among others is not selected.
func (h *Handler) SelectAddress(address string) (cache.Selection, error) {
	if text, ok := appendAsSent(nil, address); ok && h.o.Shape == Node && address != "" {
		return cache.Selection{Contains: string(text)}, nil // as clients wrote it
	}
	for _, k := range []paramType{validatorAddress, accountAddress, publicKey} {
		if text, ok := k.canonical(nil, address); ok {
			return cache.Selection{Contains: string(text)}, nil
		}
	}
	return cache.Selection{}, errors.New("expected an address: 0x and 40 hex digits, or bech32; or a public key: 0x and 66 hex digits")
}
