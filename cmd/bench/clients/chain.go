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

// AwaitBlock returns when a block of a chain has come, with its height or a later one's, or
// ctx ends.
func AwaitBlock(ctx context.Context, chain *devnet.Devnet, height int64) int64 {
	for ctx.Err() == nil && chain.Height() < height {
		time.Sleep(time.Millisecond)
	}
	return chain.Height()
}

// A Truth is what the node itself answers some keys with, at each height.
type Truth struct {
	First, Last int64
	hashes      map[string][]uint64 // of the bodies, by key, from the first height on
}

// Learn asks a node for keys at all heights from first to last, except for those that
// are known up to a height already.
func Learn(ctx context.Context, node string, keys []string, first, last int64, known *Truth, upTo int64) (*Truth, error) {
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
				body, err := rig.Get(ctx, node+key, "X-Block-Height"+height, "X-Cosmos-Block-Height"+height) // each dialect reads its own
				if err != nil {
					return fmt.Errorf("what the node says to %s at %d: %w", key, h, err)
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

// Until is the last block, of those not after tip, at which the node answers a
// key with the body; ok is false for a body that it never gave.
func (t *Truth) Until(key string, hash uint64, tip int64) (height int64, ok bool) {
	for h := min(tip, t.Last); h >= t.First; h-- {
		if t.hashes[key][h-t.First] == hash {
			return h, true
		}
	}
	return 0, false
}
