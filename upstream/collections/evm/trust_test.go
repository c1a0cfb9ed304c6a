package evm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestContradictingEndpointIsDoubtedForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPool(t, Options{})
		e := p.endpoints[0]
		hash, other := ledger.Hash{1}, ledger.Hash{2}
		expect.NoError(t, e.RecordHash(7, hash))
		expect.NoError(t, e.RecordHash(7, hash))
		expect.NoError(t, e.RecordHash(8, other))
		expect.Equal(t, p.Trusted(), 1, "trusted endpoints while all hashes agree")
		err := e.RecordHash(7, other)
		if _, contradicts := err.(*Failure); !contradicts { //nolint:errorlint // not wrapped
			t.Errorf("RecordHash of another hash = %v, want a Contradiction", err)
		}
		expect.Equal(t, p.Trusted(), 0, "trusted endpoints after a contradiction")
		for range maxDoubts - 1 {
			expect.NoError(t, p.Unreliable())
			e.Doubt()
		}
		expect.ErrorIs(t, p.Unreliable(), ErrUnreliable, "Unreliable")
		time.Sleep(forgivenAfter + time.Second)
		expect.Equal(t, p.Trusted(), 1, "trusted endpoints ten minutes after the last doubt")
		expect.NoError(t, p.Unreliable())
	})
}
