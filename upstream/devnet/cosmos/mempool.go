package cosmos

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxBroadcast bounds how many transactions a chain remembers.
const maxBroadcast = 100_000

// A mempool holds what was broadcast. The next block takes everything in.
type mempool struct {
	mu  sync.Mutex
	txs []*broadcast
}

// A broadcast is a transaction from outside: one that sends coins, or something
// unknown that only counts.
type broadcast struct {
	hash     string
	from, to string // raw addresses; "" if unknown
	amount   int64
	sequence int64
	height   int64 // the block that takes it in
}

// hashOf names a transaction.
func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hexText(sum[:])
}

// take puts a transaction in, unless it is there.
func (m *mempool) take(b *broadcast) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.txs, func(other *broadcast) bool { return other.hash == b.hash }) {
		return
	}
	if len(m.txs) >= maxBroadcast {
		m.txs = nil
	}
	m.txs = append(m.txs, b)
}

// find is a transaction by its hash, if it is in a block up to a height.
func (m *mempool) find(hash string, height int64) (found *broadcast) {
	m.each(height, func(b *broadcast) {
		if b.hash == hash {
			found = b
		}
	})
	return found
}

// sums are how many transactions of an account are in blocks up to a height, and what all
// transactions up to there have added to it.
func (m *mempool) sums(raw string, height int64) (sent, added int64) {
	m.each(height, func(b *broadcast) {
		if b.from == raw {
			sent, added = sent+1, added-b.amount-fee
		}
		if b.to == raw {
			added += b.amount
		}
	})
	return sent, added
}

func (m *mempool) each(height int64, visit func(*broadcast)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.txs {
		if b.height <= height {
			visit(b)
		}
	}
}

// parseTx reads a raw transaction as far as the chain understands it: the first
// message's sender, receiver and amount, and the first signer's sequence.
func parseTx(raw []byte) (*broadcast, bool) {
	body, auth := field(raw, 1), field(raw, 2)
	if body == nil || auth == nil {
		return nil, false
	}
	b := &broadcast{hash: hashOf(raw)}
	msg := field(field(body, 1), 2)
	b.from, _ = decode(accountPrefix, string(field(msg, 1)))
	b.to, _ = decode(accountPrefix, string(field(msg, 2)))
	b.amount, _ = strconv.ParseInt(string(field(field(msg, 3), 2)), 10, 64)
	sequence, _ := protowire.ConsumeVarint(value(field(auth, 1), 3, protowire.VarintType))
	b.sequence = int64(sequence)
	return b, true
}

// field is the first length-delimited field of a number in a message; nil for none.
func field(msg []byte, want protowire.Number) []byte {
	content, _ := protowire.ConsumeBytes(value(msg, want, protowire.BytesType))
	return content
}

// value is the first encoded value of a number and type in a message; nil for none.
func value(msg []byte, want protowire.Number, kind protowire.Type) []byte {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(num, typ, msg[n:])
		switch {
		case size < 0:
			return nil
		case num == want && typ == kind:
			return msg[n : n+size]
		}
		msg = msg[n+size:]
	}
	return nil
}
