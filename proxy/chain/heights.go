package chain

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// heights are the blocks a request names: at most one to be read at, and one
// that must have been seen.
type heights struct {
	pinned, min int64 // 0 for none
}

func readHeights(h http.Header, asSent bool) (heights, error) {
	var hs heights
	var err error
	if hs.min, err = readHeight(web.MinHeightHeader, h[web.MinHeightHeader]); err != nil {
		return hs, err
	}
	if asSent {
		hs.pinned, err = nodeHeight(h[web.HeightHeader])
		return hs, err
	}
	if hs.pinned, err = readHeight(web.HeightHeader, h[web.HeightHeader]); err != nil {
		return hs, err
	}
	if hs.pinned > 0 && hs.min > hs.pinned {
		return hs, web.BadInput("%s is above %s: no answer can be both", web.MinHeightHeader, web.HeightHeader)
	}
	return hs, nil
}

// readHeight reads a height strictly. The node reads the latest state instead
// of a height that it cannot parse, which no client that asks for one wants.
func readHeight(name string, values []string) (int64, error) {
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n <= 0 || !allDigits(values[0]) {
		return 0, malformed(name, values[0], "a positive integer")
	}
	return n, nil
}

// nodeHeight reads a height as the node does.
func nodeHeight(values []string) (int64, error) {
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	switch {
	case err != nil:
		return 0, nil //nolint:nilerr // to the node, garbage is no height
	case n < 0:
		return 0, &web.Failure{Status: http.StatusInternalServerError, Expected: true, NullMsg: true, Public: "failed to create query context: cannot query with height < 0; please provide a valid height: invalid request"}
	}
	return n, nil
}

// settle waits for the block a request must see, and refuses one that does
// not exist yet. It returns the tip to answer by.
func (ep *endpoint) settle(ctx context.Context, h heights) (node.Tip, error) {
	tip := ep.o.Nodes.Tip()
	if h.min > tip.Height { // a block that was seen stays seen, whatever is down now
		if err := ep.await(ctx, h.min, tip); err != nil {
			return tip, err
		}
		tip = ep.o.Nodes.Tip()
	}
	if tip.Known && h.pinned > tip.Height && !ep.asSent {
		return tip, web.BadInput("block %d is in the future; the newest is %d", h.pinned, tip.Height)
	}
	return tip, nil
}

// await waits for a block, within bounds.
func (ep *endpoint) await(ctx context.Context, height int64, tip node.Tip) error {
	if !tip.Known {
		return &web.Failure{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true,
			Public: "the newest block is not known at present, so " + web.MinHeightHeader + " cannot be waited for"}
	}
	ctx, cancel := context.WithTimeout(ctx, ep.o.MinHeightWait)
	defer cancel()
	err := ep.o.Nodes.WaitHeight(ctx, height)
	if errors.Is(err, context.DeadlineExceeded) {
		return ep.late(height, err)
	}
	return err
}

// late is the failure of a request that must see a block that does not come.
func (ep *endpoint) late(height int64, err error) error {
	tip := ep.o.Nodes.Tip()
	return &web.Failure{Status: http.StatusGatewayTimeout, RetryAfter: max(tip.Interval, time.Second), Err: err, Expected: true,
		Public: "block " + strconv.FormatInt(height, 10) + " has not come; the newest is " + strconv.FormatInt(tip.Height, 10)}
}
