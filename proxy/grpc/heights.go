package grpc

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
)

// HeightHeader asks for a height and tells one, as the metadata heightKey does.
const (
	HeightHeader = "X-Cosmos-Block-Height"
	heightKey    = "x-cosmos-block-height"
)

// heights reads the heights that the call names, the one to read at as the node does. Not ok says
// that the call is refused.
func (k *call) heights() (hs blocks.Heights, ok bool) {
	var err error
	if hs.Min, err = web.ReadBlock(strings.ToLower(web.MinHeightHeader), k.from.Header[web.MinHeightHeader]); err != nil {
		k.st = status.New(codes.InvalidArgument, web.FailureOf(err).Public)
		return hs, false
	}
	named := k.from.Header[HeightHeader]
	if len(named) == 0 {
		return hs, true
	}
	var refusal string
	hs.Pinned, refusal = blocks.ReadNodeHeight(named[0])
	switch {
	case len(named) > 1:
		k.st = status.Newf(codes.InvalidArgument, "%s comes %d times, so that it is not clear which height is meant", heightKey, len(named))
	case refusal != "":
		k.st = status.New(codes.Unknown, refusal)
	case hs.Pinned > 0 && hs.Min > hs.Pinned:
		k.st = status.Newf(codes.InvalidArgument, "%s is above %s: no answer can be both", strings.ToLower(web.MinHeightHeader), heightKey)
	default:
		return hs, true
	}
	return hs, false
}
