package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

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

// search asks all nodes for a transaction until each of them has it, or will not have it. It
// says how many say what, unless ctx ends.
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
		case !errors.As(err, &refusal):
			return silent
		case comet.Closing(refusal.Data):
			return silent
		case !strings.HasSuffix(refusal.Data, "not found"):
			return noIndex
		case upstream.Sleep(ctx, pause) != nil:
			return silent
		}
	}
}

// maxUnindexed is how many transactions are kept that a node does not find.
const maxUnindexed = 1000

// An unindexed keeps transactions that a node did not find in time, or did not answer for. One
// that was stopped within a commit never indexes those of that block.
type unindexed struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]json.RawMessage
	order  [][sha256.Size]byte
}

// Unindexed is the result of the method tx, without proof, for a transaction that was
// told of and that a node did not find by its hash in time; nil for any other.
func (f *Feed) Unindexed(hash [sha256.Size]byte) json.RawMessage {
	f.unindexed.mu.Lock()
	defer f.unindexed.mu.Unlock()
	return f.unindexed.byHash[hash]
}

func (u *unindexed) keep(b *Block) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, tx := range b.parts.Data.Txs {
		raw, _ := base64.StdEncoding.DecodeString(tx) // its event was made of it
		hash := sha256.Sum256(raw)
		if u.byHash == nil {
			u.byHash = map[[sha256.Size]byte]json.RawMessage{}
		}
		if u.byHash[hash] != nil {
			continue
		}
		u.byHash[hash] = b.tx(i, hash)
		if u.order = append(u.order, hash); len(u.order) > maxUnindexed {
			delete(u.byHash, u.order[0])
			u.order = u.order[1:]
		}
	}
}

// tx is the result of the method of that name.
func (b *Block) tx(i int, hash [sha256.Size]byte) json.RawMessage {
	return fmt.Appendf(nil, `{"hash":"%X","height":"%d","index":%d,"tx_result":%s,"tx":"%s"}`, hash, b.Height, i, b.results[i], b.parts.Data.Txs[i])
}
