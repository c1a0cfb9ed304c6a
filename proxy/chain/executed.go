package chain

import (
	"context"
	"errors"
	"net/http"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// farAhead is more blocks than anybody waits for.
const farAhead = 1 << 32

// executed waits for the block in whose state the execution client's block counts
// that a request must see, and gives its height.
func (r *Reader) executed(ctx context.Context, from *http.Request, rec *web.Record, block int64) (height int64, err error) {
	tip := r.Nodes.Tip()
	leave, err := r.enter(from, rec, tip, web.MinEVMHeader)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	for ; ; tip = r.Nodes.Tip() {
		newest, err := r.Nodes.Executed(ctx, tip.Height)
		switch {
		case errors.Is(err, node.ErrNoExecution):
			return 0, web.BadInput("%s cannot be waited for: no node tells of an execution client's blocks", web.MinEVMHeader)
		case err != nil:
			return 0, err
		case newest >= block:
			return tip.Height, nil
		}
		// A block carries one of the execution client's at most.
		err = r.Nodes.WaitHeight(ctx, tip.Height+min(block-newest, farAhead))
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, tooLate(tip, err, "block %d of the execution client does not count yet; the newest that does is %d", block, newest)
		}
		if err != nil {
			return 0, err
		}
	}
}
