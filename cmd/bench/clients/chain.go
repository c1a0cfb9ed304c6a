package clients

import (
	"context"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// AwaitBlock waits until a chain has reached a height or ctx ends, and returns the chain's height.
func AwaitBlock(ctx context.Context, chain *devnet.Devnet, height int64) int64 {
	for ctx.Err() == nil && chain.Height() < height {
		time.Sleep(time.Millisecond)
	}
	return chain.Height()
}

// A Truth holds a node's responses to some keys at each height.
type Truth struct {
	First, Last int64
	hashes      map[string][]uint64 // of the bodies, by key, starting at First
}

// ReadTruth reads keys from a node at all heights from first to last. Heights up to upTo are taken from known, if it is not
// nil.
func ReadTruth(ctx context.Context, node string, keys []string, first, last int64, known *Truth, upTo int64) (*Truth, error) {
	t := &Truth{First: max(1, first), Last: last, hashes: map[string][]uint64{}}
	for _, key := range keys {
		t.hashes[key] = make([]uint64, last-t.First+1)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, key := range keys {
		all.Go(func() error {
			for i := range t.hashes[key] {
				h := t.First + int64(i)
				if known != nil && known.First <= h && h <= min(upTo, known.Last) {
					t.hashes[key][i] = known.hashes[key][h-known.First]
					continue
				}
				height := ": " + strconv.FormatInt(h, 10)
				body, err := rig.Get(ctx, node+key, "X-Block-Height"+height, "X-Cosmos-Block-Height"+height) // one per dialect
				if err != nil {
					return fmt.Errorf("read %s at %d: %w", key, h, err)
				}
				t.hashes[key][i] = maphash.String(bodySeed, body)
			}
			return nil
		})
	}
	return t, all.Wait()
}

// Is reports whether the node answers a key with the body at a height.
func (t *Truth) Is(key string, height int64, hash uint64) bool {
	return t.First <= height && height <= t.Last && t.hashes[key][height-t.First] == hash
}

// Until returns the last block up to tip at which the node answers a key with the body. ok is false if there is none.
func (t *Truth) Until(key string, hash uint64, tip int64) (height int64, ok bool) {
	for h := min(tip, t.Last); h >= t.First; h-- {
		if t.hashes[key][h-t.First] == hash {
			return h, true
		}
	}
	return 0, false
}
