package chain

import (
	"context"
	"net/http"
	"strconv"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// heights are the blocks a request names: at most one to be read at, and one
// that must have been seen.
type heights struct {
	pinned, min int64 // 0 for none
	evm         int64 // the execution client's block that must have been seen; 0 for none
}

func readHeights(h http.Header, asSent bool) (heights, error) {
	var hs heights
	var err error
	if hs.min, err = readHeight(web.MinHeightHeader, h[web.MinHeightHeader]); err != nil {
		return hs, err
	}
	if hs.evm, err = readHeight(web.MinEVMHeader, h[web.MinEVMHeader]); err != nil {
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
// not exist yet. It returns the tip to answer by. The execution client's block
// becomes one of the chain's that must be seen.
func (ep *endpoint) settle(ctx context.Context, from *http.Request, rec *web.Record, h *heights) (node.Tip, error) {
	if h.evm > 0 {
		height, err := ep.executed(ctx, from, rec, h.evm)
		if err != nil {
			return ep.o.Nodes.Tip(), err
		}
		h.min = max(h.min, height)
	}
	tip, err := ep.Settle(ctx, from, rec, h.min)
	if err == nil && tip.Known && h.pinned > tip.Height && !ep.asSent {
		err = web.BadInput("block %d is in the future; the newest is %d", h.pinned, tip.Height)
	}
	return tip, err
}
