package grpc

import (
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/proxy/state"
)

// A method is how calls are answered.
type method struct {
	route string // its name in metrics: methods are what clients write
	serve func(*call) (size int, err error)
}

// The methods. What tells of the state at a height is kept by the block, and a transaction for good
// once it is found; all else is the node's own, passed on as it comes and at no height but the one that the client names.
var (
	value     = method{"grpc state", (*call).value}
	found     = method{"grpc tx", (*call).found}
	service   = method{"grpc service", (*call).service}
	broadcast = method{"grpc broadcast", (*call).broadcast}
	streamed  = method{"grpc stream", (*call).pass}
)

// services are those whose methods take one message and answer with one, and are those of the
// RPC too.
var services = regexp.MustCompile(`^/cosmos\.(tx|base\.tendermint|base\.node)\.[a-z0-9]+\.Service/`)

func methodOf(name string) method {
	switch {
	case state.Tells(name):
		return value
	case state.Finds(name):
		return found
	case !services.MatchString(name):
		return streamed
	case strings.HasSuffix(name, "/BroadcastTx"):
		return broadcast
	default:
		return service
	}
}
