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
	raw      []byte
}

// hashOf names a transaction.
func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hexText(sum[:])
}

// add puts a transaction in, unless it is there.
func (m *mempool) add(b *broadcast) {
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
	tx := fields(raw)
	if tx[1] == nil || tx[2] == nil {
		return nil, false
	}
	msg := fields(fields(fields(tx[1])[1])[2])
	b := &broadcast{hash: hashOf(raw), raw: raw}
	b.from, _ = decode(accountPrefix, string(msg[1]))
	b.to, _ = decode(accountPrefix, string(msg[2]))
	b.amount, _ = strconv.ParseInt(string(fields(msg[3])[2]), 10, 64)
	sequence, _ := protowire.ConsumeVarint(fields(fields(tx[2])[1])[3])
	b.sequence = int64(sequence)
	return b, true
}

// fields are the first values in a message, by number: the contents of those with a
// length, others as they are encoded. What follows something malformed is left out.
func fields(msg []byte) map[protowire.Number][]byte {
	all := map[protowire.Number][]byte{}
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		size := protowire.ConsumeFieldValue(num, typ, msg[max(0, n):])
		if n < 0 || size < 0 {
			break
		}
		value := msg[n : n+size]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if all[num] == nil {
			all[num] = value
		}
		msg = msg[n+size:]
	}
	return all
}
