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
