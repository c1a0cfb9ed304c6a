package cosmos

import (
	"fmt"
	"net/http"
	"strconv"
)

// heightOf is the height that a request is answered at. A header that comes
// twice, or under both names, silently means the latest.
func (g *gateway) heightOf(h http.Header, now Clock) (int64, error) {
	given := append(append([]string{}, h.Values(heightHeader)...), h.Values(metadataHeader)...)
	var height int64
	if len(given) == 1 {
		var err error
		if height, err = g.parseHeight(given[0]); err != nil {
			return 0, err
		}
	}
	switch {
	case height == 0 && now.Restarted:
		return 0, g.refuse(26, "invalid height", fmt.Sprintf("context did not contain latest block height in either check state or finalize block state (%d)", now.Height))
	case height == 0:
		return now.Height, nil
	case height > now.Height:
		return 0, g.refuse(26, "invalid height", "cannot query with height in the future; please provide a valid height")
	case height < now.Oldest:
		return 0, g.refuse(38, "not found", fmt.Sprintf("failed to load state at height %d; version mismatch on immutable IAVL tree; version does not exist. Version has either been pruned, or is for a future block height (latest height: %d)", height, now.Height))
	}
	return height, nil
}

// parseHeight reads a header. A node without gRPC takes what is no height for the latest.
func (g *gateway) parseHeight(text string) (int64, error) {
	height, err := strconv.ParseInt(text, 10, 64)
	switch {
	case g.noGRPC && err != nil:
		height = 0
	case g.noGRPC:
		height = max(0, height)
	case err != nil:
		return 0, g.refuse(18, "invalid request", fmt.Sprintf("Baseapp.RegisterGRPCServer: invalid height header \"x-cosmos-block-height\": %v", err))
	case height < 0:
		return 0, g.refuse(18, "invalid request", "cannot query with height < 0; please provide a valid height")
	}
	return height, nil
}

// refuse is an error of the SDK from before a handler runs.
func (g *gateway) refuse(code int, name, text string) error {
	if g.noGRPC {
		return fail(unknown, "%s: %s", text, name)
	}
	return fail(unknown, "codespace sdk code %d: %s: %s", code, name, text)
}
