package cosmos

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxBroadcast bounds how many transactions a chain remembers.
const maxBroadcast = 100_000

// A mempool holds what was broadcast. The next block takes everything in.
type mempool struct {
	mu   sync.Mutex
	txs  []*broadcast
	hash map[string]*broadcast
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
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// take puts a transaction in, unless it is there.
func (m *mempool) take(b *broadcast) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hash[b.hash] != nil {
		return
	}
	if m.hash == nil || len(m.txs) >= maxBroadcast {
		m.hash, m.txs = map[string]*broadcast{}, nil
	}
	m.hash[b.hash], m.txs = b, append(m.txs, b)
}

// find is a transaction by its hash, if it is in a block up to a height.
func (m *mempool) find(hash string, height int64) *broadcast {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.hash[hash]; b != nil && b.height <= height {
		return b
	}
	return nil
}

// sent counts the transactions of an account in blocks up to a height.
func (m *mempool) sent(raw string, height int64) int64 {
	var sum int64
	m.each(height, func(b *broadcast) {
		if b.from == raw {
			sum++
		}
	})
	return sum
}

// moved is what transactions up to a height have added to an account.
func (m *mempool) moved(raw string, height int64) int64 {
	var sum int64
	m.each(height, func(b *broadcast) {
		if b.from == raw {
			sum -= b.amount + fee
		}
		if b.to == raw {
			sum += b.amount
		}
	})
	return sum
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
	body, ok := field(raw, 1)
	auth, signed := field(raw, 2)
	if !ok || !signed {
		return nil, false
	}
	b := &broadcast{hash: hashOf(raw)}
	msg, _ := field(body, 1)
	msg, _ = field(msg, 2)
	b.from, b.to = addressIn(msg, 1), addressIn(msg, 2)
	coin, _ := field(msg, 3)
	amount, _ := field(coin, 2)
	b.amount, _ = strconv.ParseInt(string(amount), 10, 64)
	signer, _ := field(auth, 1)
	b.sequence = number(signer, 3)
	return b, true
}

func addressIn(msg []byte, num protowire.Number) string {
	text, _ := field(msg, num)
	raw, err := decode(accountPrefix, string(text))
	if err != nil {
		return ""
	}
	return string(raw)
}

// field is the first length-delimited field of a number in a message.
func field(msg []byte, want protowire.Number) ([]byte, bool) {
	for len(msg) > 0 {
		num, kind, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return nil, false
		}
		msg = msg[n:]
		if num == want && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(msg)
			return value, n >= 0
		}
		if n = protowire.ConsumeFieldValue(num, kind, msg); n < 0 {
			return nil, false
		}
		msg = msg[n:]
	}
	return nil, false
}

// number is the first varint of a number in a message; 0 for none.
func number(msg []byte, want protowire.Number) int64 {
	for len(msg) > 0 {
		num, kind, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return 0
		}
		msg = msg[n:]
		if num == want && kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(msg)
			return int64(value)
		}
		if n = protowire.ConsumeFieldValue(num, kind, msg); n < 0 {
			return 0
		}
		msg = msg[n:]
	}
	return 0
}
