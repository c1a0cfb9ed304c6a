package node

import (
	"math/bits"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	nearby = 10                   // blocks behind: worth waiting for
	near   = 8 * time.Millisecond // endpoints that answer as fast are equally near; so are those within a factor of two
)

// choose picks the best endpoint to ask now. hope says that waiting may help
// where there is none. One to be avoided is not picked while another should have the
// height soon.
func (f *fetch) choose() (best *endpoint, hope bool) {
	tip, height, chain := f.pool.Tip(), f.height(), f.pool.ChainID()
	var least [5]int
	f.resting, f.far, f.gone, f.newest = false, false, false, 0
	for _, e := range f.pool.endpoints {
		v := e.look()
		reach := v.reach(height, tip.Interval)
		switch {
		case v.Foreign() || !e.serves(f.request, chain) || slices.Contains(f.asked, e) || f.request.Only != "" && f.request.Only != e.name:
		case reach == pruned && f.request.rest(): // the own words of RPC and gRPC are not ours to say
			f.gone = true
		case e.breakerOf(f.request).State() == gobreaker.StateOpen:
			f.resting = true
		case v.Unseen || slices.Contains(f.lagging, e):
			hope = true
		case reach == behind && height <= tip.Height: // beyond the tip, let the node say so
			soon := height-v.Height <= nearby
			hope, f.far, f.newest = hope || soon, f.far || !soon, max(f.newest, v.Height)
		default:
			if rank := e.rank(v, reach, f.request.Avoid); best == nil || slices.Compare(rank[:], least[:]) < 0 {
				best, least = e, rank
			}
		}
	}
	if best != nil && best.name == f.request.Avoid && hope && time.Now().Before(f.patience) {
		return nil, hope
	}
	return best, hope
}

// rank orders endpoints, least first: not to be avoided, without a late failure,
// known to have the height, where no request waits, the nearest, with
// the fewest requests.
func (e *endpoint) rank(v view, r reach, avoid string) [5]int {
	failed := 0
	if time.Since(v.failed) < penaltyTime {
		failed = 1
	}
	if e.name == avoid {
		failed += 2
	}
	load := e.queue.Load()
	return [5]int{failed, int(present - r), load.Waiting, bits.Len64(uint64(v.latency / near)), load.InFlight}
}
