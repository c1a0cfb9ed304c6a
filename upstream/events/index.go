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
	maxUnfound = time.Second // after which the event of a transaction is sent although nodes do not find it
	firstPause = 5 * time.Millisecond
	maxPause   = 80 * time.Millisecond
)

// awaitIndex waits until the nodes find the last transaction of a block by its hash: they index a block
// as a whole. It retries while no node responds.
func (f *Feed) awaitIndex(ctx context.Context, b *Block) {
	ctx, cancel := context.WithTimeout(ctx, maxUnfound)
	defer cancel()
	raw, _ := base64.StdEncoding.DecodeString(b.parts.Data.Txs[len(b.results)-1]) // addTx decoded it before
	hash := sha256.Sum256(raw)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		nodes := f.search(ctx, hash[:])
		if ctx.Err() == nil && nodes[found]+nodes[noIndex] > 0 {
			if nodes[found] == 0 {
				f.metrics.unfound.WithLabelValues("no index").Inc()
			}
			return
		}
		_ = upstream.Sleep(ctx, pause)
	}
	f.metrics.unfound.WithLabelValues("late").Inc()
}

// A searchResult is the outcome of searching a transaction at a node.
type searchResult int

const (
	found searchResult = iota
	noIndex
	unanswered // no response, or the block was not indexed in time
	numSearchResults
)

// search searches a transaction at all fit nodes and returns the number of nodes per result.
func (f *Feed) search(ctx context.Context, hash []byte) (counts [numSearchResults]int) {
	nodes, searches := f.o.Nodes(), 0
	results := make(chan searchResult, len(nodes))
	for _, n := range nodes {
		if n.Fit() {
			searches++
			go func() {
				result := unanswered
				_ = upstream.Guard(f.o.Logger, "index of transactions", func() error {
					result = n.find(ctx, hash)
					return nil
				})
				results <- result
			}()
		}
	}
	for range searches {
		counts[<-results]++
	}
	return counts
}

// find searches a transaction at a node until the node finds it or cannot.
func (n Node) find(ctx context.Context, hash []byte) searchResult {
	params := map[string]string{"hash": base64.StdEncoding.EncodeToString(hash)}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		_, err := n.Call(ctx, "tx", params, MaxMessage)
		var refusal *comet.Refusal
		switch {
		case err == nil:
			return found
		case !errors.As(err, &refusal) || comet.IsShutdownError(refusal.Data):
			return unanswered
		case !strings.HasSuffix(refusal.Data, "not found"):
			return noIndex
		case upstream.Sleep(ctx, pause) != nil:
			return unanswered
		}
	}
}
