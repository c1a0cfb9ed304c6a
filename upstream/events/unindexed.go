package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
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

// Unindexed is a transaction that a node did not find by its hash in time; nil for any other.
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

const (
	maxUnfound = time.Second // for which the event of a transaction waits
	firstPause = 5 * time.Millisecond
	maxPause   = 80 * time.Millisecond
)

// awaitIndex waits until the nodes find the transactions of a block by their hashes. They
// index all of a block at once, so one is asked for. While no node answers, one may come back.
func (f *Feed) awaitIndex(ctx context.Context, b *Block) {
	ctx, cancel := context.WithTimeout(ctx, maxUnfound)
	defer cancel()
	raw, _ := base64.StdEncoding.DecodeString(b.parts.Data.Txs[len(b.results)-1]) // its event was made of it
	hash := sha256.Sum256(raw)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		said := f.search(ctx, hash[:])
		if said[silent] > 0 {
			f.unindexed.keep(b)
		}
		if ctx.Err() == nil && said[found]+said[noIndex] > 0 {
			if said[found] == 0 {
				f.metrics.unheld.WithLabelValues("no index").Inc()
			}
			return
		}
		_ = upstream.Sleep(ctx, pause)
	}
	f.metrics.unheld.WithLabelValues("late").Inc()
	f.unindexed.keep(b)
}

// A finding is what a node says of a transaction.
type finding int

const (
	found finding = iota
	noIndex
	silent // it may have been stopped within the commit of the block, which it never indexes then
	findings
)

// search asks all nodes until each has the transaction, or will not have it, and counts them.
func (f *Feed) search(ctx context.Context, hash []byte) (said [findings]int) {
	answers, asked := make(chan finding, len(f.o.Nodes)), 0
	for _, n := range f.o.Nodes {
		if n.Fit() {
			asked++
			go func() { answers <- n.find(ctx, hash) }()
		}
	}
	for range asked {
		said[<-answers]++
	}
	return said
}

// find asks a node for a transaction until it has it.
func (n Node) find(ctx context.Context, hash []byte) finding {
	params := map[string]string{"hash": base64.StdEncoding.EncodeToString(hash)}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		_, err := n.Call(ctx, "tx", params, MaxMessage)
		var refusal *comet.Refusal
		switch {
		case err == nil:
			return found
		case !errors.As(err, &refusal) || comet.Closing(refusal.Data):
			return silent
		case !strings.HasSuffix(refusal.Data, "not found"):
			return noIndex
		case upstream.Sleep(ctx, pause) != nil:
			return silent
		}
	}
}
