package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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
		found, noIndex := f.search(ctx, hash[:])
		if ctx.Err() == nil && (found || noIndex) {
			if !found {
				f.metrics.unheld.WithLabelValues("no index").Inc()
			}
			return
		}
		_ = upstream.Sleep(ctx, pause)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // otherwise Run has ended
		f.metrics.unheld.WithLabelValues("late").Inc()
	}
}

// search searches a transaction at all fit nodes at once. It waits for each of them, because a client may read any of
// them, and ends when each has found it or has failed. found reports whether a node has found it, noIndex whether a node
// has no index.
func (f *Feed) search(ctx context.Context, hash []byte) (found, noIndex bool) {
	var searches sync.WaitGroup
	var yes, no atomic.Bool
	for _, n := range f.o.Nodes() {
		if n.Fit() {
			searches.Go(func() {
				upstream.GuardInput(f.o.Logger, "index of transactions", func() {
					switch err := n.awaitIndexed(ctx, hash); {
					case err == nil:
						yes.Store(true)
					case errors.Is(err, errNoIndex):
						no.Store(true)
					}
				})
			})
		}
	}
	searches.Wait()
	return yes.Load(), no.Load()
}

// errNoIndex is the error of a node that does not index transactions.
var errNoIndex = errors.New("node has no index of transactions")

// awaitIndexed searches a transaction at a node until the node has found it. It returns errNoIndex if the node has no
// index, and another error if the node does not respond or ctx ends.
func (n Node) awaitIndexed(ctx context.Context, hash []byte) error {
	params := map[string]string{"hash": base64.StdEncoding.EncodeToString(hash)}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		_, err := n.Call(ctx, "tx", params, MaxMessage)
		refusal, refused := errors.AsType[*comet.Refusal](err)
		switch {
		case !refused || comet.IsShutdownError(refusal.Data):
			return err
		case !strings.HasSuffix(refusal.Data, "not found"):
			return errNoIndex
		}
		if err := upstream.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
