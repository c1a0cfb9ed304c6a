package chain

import (
	"errors"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/dialect"
)

// SelectRoute selects the keys of one row: those at explicit heights too.
func (h *Handler) SelectRoute(name string) (cache.Selection, error) {
	return dialect.SelectRoute(Rows(), h.prefix, name)
}

// SelectAddress selects the keys that name an address, or a public key: of
// queries about it, of the collection and of its metadata. The address may be
// written in any of its forms. What only lists it among others is not selected.
func (h *Handler) SelectAddress(address string) (cache.Selection, error) {
	if text, ok := readSent(address); ok && h.asSent && address != "" {
		return cache.Selection{Contains: string(dialect.AppendPath(nil, text))}, nil // as clients wrote it
	}
	for _, k := range []paramType{validatorAddress, accountAddress, publicKey} {
		if text, ok := k.Read(address); ok {
			return cache.Selection{Contains: text}, nil
		}
	}
	return cache.Selection{}, errors.New("expected an address: 0x and 40 hex digits, or bech32; or a public key: 0x and 66 hex digits")
}
