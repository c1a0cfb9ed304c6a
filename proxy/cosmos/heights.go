package cosmos

import (
	"net/http"
	"slices"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
)

// The node's headers with the height, in requests and responses.
const (
	cosmosHeader   = "X-Cosmos-Block-Height"
	metadataHeader = "Grpc-Metadata-X-Cosmos-Block-Height"
)

// heights reads the blocks that requests name.
var heights = web.HeightRules{Pinned: readPinned}

// readPinned reads the headers of the height to read at. It refuses several values, even equal ones, for which the node would
// silently read the latest state.
func readPinned(h http.Header) (height int64, err error) {
	ours, theirs := web.Given(h[respond.HeightHeader]), slices.Concat(h[cosmosHeader], h[metadataHeader])
	switch given := len(ours) + len(theirs); {
	case given == 0:
		return 0, nil
	case given > 1:
		return 0, failure.BadInput("the height to read at is given %d times", given)
	case len(ours) == 1:
		return web.ReadBlock(respond.HeightHeader, ours)
	}
	height, refusal := web.ReadNodeHeight(theirs[0])
	if refusal != "" {
		return 0, &failure.Failure{Status: http.StatusInternalServerError, Public: refusal, Expected: true}
	}
	return height, nil
}
