package cosmos

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/tipcache/tipcache/proxy/web"
)

// HeightHeaders are the node's own headers that ask for a height and tell one.
var HeightHeaders = []string{cosmosHeader, metadataHeader}

const (
	cosmosHeader   = "X-Cosmos-Block-Height"
	metadataHeader = "Grpc-Metadata-X-Cosmos-Block-Height"
)

// heights are the blocks that a request names: at most one to be read at, and one that
// must have been seen.
type heights struct {
	pinned, min int64 // 0 for none
}

// readHeights reads them. Where two heights are given, even equal ones, the node reads the latest
// instead and says nothing: that is refused here.
func readHeights(h http.Header) (heights, error) {
	var hs heights
	var err error
	if values := h[web.MinHeightHeader]; len(values) > 0 {
		if hs.min, err = strictHeight(web.MinHeightHeader, values[0]); err != nil {
			return hs, err
		}
	}
	ours, theirs, again := h[web.HeightHeader], h[cosmosHeader], h[metadataHeader]
	switch given := len(ours) + len(theirs) + len(again); {
	case given == 0:
		return hs, nil
	case given > 1:
		return hs, web.BadInput("the height to read at is given %d times", given)
	case len(ours) == 1:
		hs.pinned, err = strictHeight(web.HeightHeader, ours[0])
	case len(theirs) == 1:
		hs.pinned, err = nodeHeight(theirs[0])
	default:
		hs.pinned, err = nodeHeight(again[0])
	}
	if err == nil && hs.pinned > 0 && hs.min > hs.pinned {
		err = web.BadInput("%s is above the height to read at: no answer can be both", web.MinHeightHeader)
	}
	return hs, err
}

// strictHeight reads a height of our own headers.
func strictHeight(name, value string) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n == 0 {
		return 0, web.BadInput("%s is %q; expected a positive integer", name, web.Short(value))
	}
	return int64(n), nil
}

// nodeHeight reads a height as the node does, in its words. Not all nodes refuse what is none, so that
// none is asked.
func nodeHeight(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return 0, badHeight(fmt.Sprintf("Baseapp.RegisterGRPCServer: invalid height header \"x-cosmos-block-height\": %v", err))
	case n < 0:
		return 0, badHeight("cannot query with height < 0; please provide a valid height")
	}
	return n, nil
}

func badHeight(text string) error {
	return &web.Failure{Status: http.StatusInternalServerError, Public: "codespace sdk code 18: invalid request: " + text, Expected: true}
}
