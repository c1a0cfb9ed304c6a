package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
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
		if ctx.Err() == nil && said[found]+said[noIndex] > 0 {
			if said[found] == 0 {
				f.metrics.unheld.WithLabelValues("no index").Inc()
			}
			return
		}
		_ = upstream.Sleep(ctx, pause)
	}
	f.metrics.unheld.WithLabelValues("late").Inc()
}

// A finding is what a node says of a transaction.
type finding int

const (
	found finding = iota
	noIndex
	silent // it does not answer, or has not indexed the block in time
	findings
)

// search asks all nodes until each has the transaction, or will not have it, and counts them.
func (f *Feed) search(ctx context.Context, hash []byte) (said [findings]int) {
	nodes, asked := f.o.Nodes(), 0
	answers := make(chan finding, len(nodes))
	for _, n := range nodes {
		if n.Fit() {
			asked++
			go func() {
				said := silent
				_ = upstream.Guard(f.o.Logger, "index of transactions", func() error {
					said = n.find(ctx, hash)
					return nil
				})
				answers <- said
			}()
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
