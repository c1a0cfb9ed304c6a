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
// index all of a block at once, so one is asked for.
func (f *Feed) awaitIndex(ctx context.Context, b *Block) {
	ctx, cancel := context.WithTimeout(ctx, maxUnfound)
	defer cancel()
	raw, _ := base64.StdEncoding.DecodeString(b.parts.Data.Txs[len(b.results)-1]) // its event was made of it
	hash := sha256.Sum256(raw)
	answers, asked := make(chan error, len(f.o.Nodes)), 0
	for _, n := range f.o.Nodes {
		if n.Fit() {
			asked++
			go func() { answers <- n.find(ctx, hash[:]) }()
		}
	}
	without, late := 0, 0
	for range asked {
		switch err := <-answers; {
		case err == nil:
		case ctx.Err() != nil:
			late++
		default:
			without++
		}
	}
	if late > 0 {
		f.metrics.unheld.WithLabelValues("late").Inc()
		f.unindexed.keep(b)
	} else if without == asked {
		f.metrics.unheld.WithLabelValues("no index").Inc()
	}
}

// find asks a node for a transaction until it has it. The error says that it has no
// index, or does not answer.
func (n Node) find(ctx context.Context, hash []byte) error {
	params := map[string]string{"hash": base64.StdEncoding.EncodeToString(hash)}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		_, err := n.Call(ctx, "tx", params, MaxMessage)
		var refusal *comet.Refusal
		if !errors.As(err, &refusal) || !strings.HasSuffix(refusal.Data, "not found") {
			return err
		}
		if err := upstream.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// maxUnindexed is how many transactions are kept that a node does not find.
const maxUnindexed = 1000

// An unindexed keeps transactions that a node did not find in time. One that was stopped
// within a commit never indexes those of that block.
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
