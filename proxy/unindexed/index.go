package unindexed

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/tipcache/tipcache/upstream/events"
)

// An Index knows transactions that nodes do not find.
type Index interface {
	// Unindexed is the one of a hash, nil for none.
	Unindexed(hash [sha256.Size]byte) *events.Transaction
	// UnindexedAt are all of a block, in order.
	UnindexedAt(height int64) []*events.Transaction
}

// Txs are the transactions that nodes do not find. There are none without an Index, and for nil.
type Txs struct{ index atomic.Pointer[Index] }

// Set says what knows them.
func (t *Txs) Set(index Index) { t.index.Store(&index) }

// ByHash is the one of a hash, nil for none.
func (t *Txs) ByHash(hash []byte) *events.Transaction {
	if t == nil || t.index.Load() == nil || len(hash) != sha256.Size {
		return nil
	}
	return (*t.index.Load()).Unindexed([sha256.Size]byte(hash))
}

// The searches that find transactions of one block: clients wait for theirs by the first.
var (
	byHash   = regexp.MustCompile(`^\s*tx\.hash\s*=\s*'([0-9A-Fa-f]{64})'\s*$`)
	byHeight = regexp.MustCompile(`^\s*tx\.height\s*=\s*([1-9][0-9]*)\s*$`)
)

// Search are those that a search is for, in order; nil for any other search.
func (t *Txs) Search(query string) []*events.Transaction {
	if m := byHash.FindStringSubmatch(query); m != nil {
		hash, _ := hex.DecodeString(m[1]) // it has its form
		if tx := t.ByHash(hash); tx != nil {
			return []*events.Transaction{tx}
		}
	}
	if m := byHeight.FindStringSubmatch(query); m != nil && t != nil && t.index.Load() != nil {
		height, _ := strconv.ParseInt(m[1], 10, 64) // 0 for one that no block has
		return (*t.index.Load()).UnindexedAt(height)
	}
	return nil
}

// A Page is what part of them is asked for.
type Page struct {
	Number, Size int64 // from 1 on; the Size is at most 100
	Descending   bool
}

// maxPage is what a page has at most, as at a node.
const maxPage = 100

// Of is the part of them; ok is false where there is no such page.
func (p Page) Of(all []*events.Transaction) (part []*events.Transaction, ok bool) {
	size := min(p.Size, maxPage)
	begin := (max(p.Number, 1) - 1) * size
	if size <= 0 || begin < 0 || begin >= int64(len(all)) {
		return nil, false
	}
	if p.Descending {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	return all[begin:min(begin+size, int64(len(all)))], true
}
