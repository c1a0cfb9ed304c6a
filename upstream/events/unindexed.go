package events

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"
)

// A Transaction is one in a block, with what running it came to.
type Transaction struct {
	Hash   [sha256.Size]byte
	Bytes  []byte
	Height int64
	Index  int                 // in the block
	Block  [][sha256.Size]byte // the hashes of all that the block has
	Time   time.Time           // of the block
	Result json.RawMessage     // as block_results has it
}

// txs are the transactions of a block.
func (b *Block) txs() []*Transaction {
	var header struct {
		Time time.Time `json:"time"`
	}
	_ = decode(b.parts.Header, &header) // one without a time has none
	hashes, all := make([][sha256.Size]byte, len(b.results)), make([]*Transaction, len(b.results))
	for i, result := range b.results {
		raw, _ := base64.StdEncoding.DecodeString(b.parts.Data.Txs[i]) // its event was made of it
		hashes[i] = sha256.Sum256(raw)
		all[i] = &Transaction{Hash: hashes[i], Bytes: raw, Height: b.Height, Index: i, Block: hashes, Time: header.Time, Result: result}
	}
	return all
}

// maxUnindexed is how many transactions are kept that a node does not find.
const maxUnindexed = 1000

// An unindexed keeps transactions that a node did not find in time, or did not answer for. One
// that was stopped within a commit never indexes those of that block.
type unindexed struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]*Transaction
	order  []*Transaction
}

// Unindexed is a transaction that was told of and that a node did not find by its hash in time;
// nil for any other.
func (f *Feed) Unindexed(hash [sha256.Size]byte) *Transaction {
	f.unindexed.mu.Lock()
	defer f.unindexed.mu.Unlock()
	return f.unindexed.byHash[hash]
}

// UnindexedAt are those of a block, in order; nil unless all that the block has are known.
func (f *Feed) UnindexedAt(height int64) (all []*Transaction) {
	f.unindexed.mu.Lock()
	defer f.unindexed.mu.Unlock()
	for _, tx := range f.unindexed.order {
		if tx.Height == height {
			all = append(all, tx)
		}
	}
	if len(all) > 0 && len(all) < len(all[0].Block) {
		return nil
	}
	return all
}

func (u *unindexed) keep(b *Block) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, tx := range b.txs() {
		if u.byHash == nil {
			u.byHash = map[[sha256.Size]byte]*Transaction{}
		}
		if u.byHash[tx.Hash] != nil {
			continue
		}
		u.byHash[tx.Hash] = tx
		if u.order = append(u.order, tx); len(u.order) > maxUnindexed {
			delete(u.byHash, u.order[0].Hash)
			u.order = u.order[1:]
		}
	}
}
