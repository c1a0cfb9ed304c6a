package cosmos

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// heightOf is the height that a request is answered at. A header that comes
// twice, or under both names, silently means the latest.
func (g *gateway) heightOf(h http.Header, now state.Clock) (height int64, err error) {
	if given := append(append([]string{}, h.Values(heightHeader)...), h.Values(metadataHeader)...); len(given) == 1 {
		height, err = strconv.ParseInt(given[0], 10, 64)
	}
	if g.noGRPC { // which takes what is no height for the latest
		height, err = max(0, height), nil
	}
	code, name, text := now.Unreadable(height)
	switch {
	case err != nil:
		return 0, g.refuse(18, "invalid request", fmt.Sprintf("Baseapp.RegisterGRPCServer: invalid height header \"x-cosmos-block-height\": %v", err))
	case height == 0 && now.Restarted:
		return 0, g.refuse(26, "invalid height", fmt.Sprintf("context did not contain latest block height in either check state or finalize block state (%d)", now.Height))
	case height == 0:
		return now.Height, nil
	case code != 0:
		return 0, g.refuse(code, name, text)
	}
	return height, nil
}

// refuse is an error of the SDK from before a handler runs.
func (g *gateway) refuse(code int, name, text string) error {
	if g.noGRPC {
		return state.Fail(state.Unknown, "%s: %s", text, name)
	}
	return state.Fail(state.Unknown, "codespace sdk code %d: %s: %s", code, name, text)
}
