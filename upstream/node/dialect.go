package node

import (
	"fmt"
	"net/http"
	"slices"
)

// A Dialect is the kind of REST API that the nodes of a chain serve.
type Dialect string

// The dialects.
const (
	Story  Dialect = "story"  // the consensus client of Story
	Cosmos Dialect = "cosmos" // any chain of the Cosmos SDK, by grpc-gateway
)

// A protocol holds the properties of a dialect.
type protocol struct {
	height   string // request header for the height
	probe    string // path of a cheap read of the state
	keyProbe string // path of a list whose pages reveal the form of page keys; "" if all nodes use the same form
	nodeInfo string // path of the node's description, which names the chain; "" if there is none
	blocks   string // path of a block up to its height, which is appended; "" if there is none
	// read interprets a response to a request at the height asked. ok is false if it did not come from a node.
	read     func(r *http.Response, body []byte, asked int64) (a *Answer, ok bool)
	executes bool // its blocks contain blocks of an execution client
	// hasHeights is true if responses contain the height at which they were read.
	hasHeights bool
}

func (d Dialect) protocol() (*protocol, error) {
	switch d {
	case Story, "":
		return &protocol{height: "X-Block-Height", probe: "/auth/params", keyProbe: "/staking/validators", executes: true, read: readStory}, nil
	case Cosmos:
		return &protocol{height: heightHeader, probe: "/cosmos/auth/v1beta1/params", nodeInfo: "/cosmos/base/tendermint/v1beta1/node_info", blocks: "/cosmos/base/tendermint/v1beta1/blocks/", read: readCosmos, hasHeights: true}, nil
	}
	return nil, fmt.Errorf("unknown dialect %q", string(d))
}

// HeightHeader returns the request header for the height to read at. It is "" for an unknown dialect.
func (d Dialect) HeightHeader() string {
	p, err := d.protocol()
	if err != nil {
		return ""
	}
	return p.height
}

// ReadResponse interprets the response of a REST server to a request at the height asked, or at its latest if asked is 0. The
// Height of the answer is the one that the response names, 0 for none. ok is false if the response did not come from a node of
// the dialect. ReadResponse is for programs that send their own requests.
func (d Dialect) ReadResponse(r *http.Response, body []byte, asked int64) (a *Answer, ok bool) {
	p, err := d.protocol()
	if err != nil {
		return nil, false
	}
	if a, ok = p.read(r, body, asked); ok {
		a.Height = statedHeight(slices.Concat(r.Header.Values(parentHeader), r.Header.Values(metadataHeader), r.Header.Values(heightHeader))...)
	}
	return a, ok
}
