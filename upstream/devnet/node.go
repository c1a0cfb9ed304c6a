package devnet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/devnet/story"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// A Node is one node of the chain: a REST server, a CometBFT RPC server and, in the dialect cosmos, a gRPC server.
type Node struct {
	chain      *chain
	keepRecent atomic.Int64
	lag        atomic.Int64
	base64Keys atomic.Bool
	asked      Tally
	handlers   sync.Map // http.HandlerFuncs that tests add, by path or by JSON-RPC method
	rest       *target
	comet      *target
	grpc       *target   // nil for Story, and without gRPC
	targets    []*target // all servers

	restartedAt atomic.Int64 // height at the last restart
}

// newNode returns a node that does not listen yet.
func newNode(c *chain, o Options) *Node {
	n := &Node{chain: c}
	n.keepRecent.Store(o.KeepRecent)
	n.base64Keys.Store(o.Base64Keys)
	n.rest = newTarget(o.NodeAddr, idleTimeout, nil)
	n.comet = newTarget(o.CometAddr, idleTimeout, n.withAdded(http.HandlerFunc(n.serveComet)))
	n.targets = []*target{n.rest, n.comet}
	if c.cosmos == nil {
		n.rest.handler = n.withAdded(c.story.Handler(n, n.asked.Count))
		return n
	}
	n.rest.handler, n.rest.words = n.withAdded(c.cosmos.Handler(n, o.NoGRPC, n.asked.Count)), cosmos.Unavailable
	if !o.NoGRPC {
		n.grpc = newTarget(o.GRPCAddr, 0, http.HandlerFunc(n.serveGRPC))
		n.grpc.h2c = true
		n.targets = append(n.targets, n.grpc)
	}
	return n
}

// GRPCAddr returns the address of the gRPC server, or "" if the node has none.
func (n *Node) GRPCAddr() string {
	if n.grpc == nil {
		return ""
	}
	return *n.grpc.addr.Load()
}

// RESTURL returns the base URL of the REST server, without a trailing slash.
func (n *Node) RESTURL() string { return n.rest.url() }

// CometURL returns the base URL of the CometBFT RPC server. Its WebSocket is at /websocket.
func (n *Node) CometURL() string { return n.comet.url() }

// Height returns the newest block that this node can read.
func (n *Node) Height() int64 { return max(1, n.chain.height()-n.lag.Load()) }

// ahead returns the number of blocks by which reported heights are too high.
func (n *Node) ahead() int64 { return n.comet.fault.Load().Ahead }

// SetLag sets how many blocks the node is behind the chain. /status then says that it is catching up.
func (n *Node) SetLag(blocks int64) {
	n.lag.Store(blocks)
	n.chain.signal() // wakes watchers although there is no new block
}

// SetKeepRecent sets how many heights below its newest block the node can read.
func (n *Node) SetKeepRecent(heights int64) { n.keepRecent.Store(heights) }

// SetBase64Keys makes the node read page keys in base64, or raw, like another release. Connections stay open.
func (n *Node) SetBase64Keys(on bool) { n.base64Keys.Store(on) }

// SetFaults sets the faults of the node's application, which serves REST and gRPC, and of its CometBFT.
func (n *Node) SetFaults(app, comet Fault) error {
	if n.rest.fault.Load().Outage != "" && app.Outage == "" {
		n.Restart()
	}
	err := errors.Join(n.rest.setFault(app), n.comet.setFault(comet))
	if n.grpc != nil {
		err = errors.Join(err, n.grpc.setFault(app))
	}
	return err
}

// A Dialect is the REST API of a devnet's nodes.
type Dialect string

// The dialects. CometBFT's API is the same in both.
const (
	Story  Dialect = "story"
	Cosmos Dialect = "cosmos" // a chain of the Cosmos SDK, by grpc-gateway
)

// Dialect returns the dialect of the nodes.
func (d *Devnet) Dialect() Dialect { return d.options.Dialect }

// Addresses that exist on every Story devnet and have long lists.
const (
	PopularValidator = story.PopularValidator // Options.Delegators delegations
	WideDelegator    = story.WideDelegator    // on up to 61 validators
)

// Validators returns the operator addresses of all validators, in order.
func (d *Devnet) Validators() []string { return d.chain.staking.Operators() }

// Delegators returns the addresses that delegate to the popular validator, in order.
func (d *Devnet) Delegators() []string { return d.chain.staking.Popular.Delegators() }

// Delegate adds tokens to a delegator of the popular validator. It returns the execution block that has
// the transaction, which is the next one. The state of the block after that includes it.
func (d *Devnet) Delegate(delegator string, tokens uint64) (block int64) {
	c := d.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	height, popular := c.height()+1, c.staking.Popular
	popular.Write(delegator, tokens, height+1)
	return c.evmStart + height - c.first
}

// application returns the name and version in abci_info, and the state of the transaction index in status.
func (c *chain) application() (name, version, txIndex string) {
	if c.cosmos == nil {
		return "story", "v1.5.3", "off"
	}
	return "SimApp", "0.53.6", "on"
}

// Now implements state.View, like the next two methods.
func (n *Node) Now() state.Clock {
	return state.Clock{
		Height: n.Height(), Oldest: max(1, n.Height()-n.keepRecent.Load()), Stored: max(1, n.chain.proposed.Load()-n.lag.Load()),
		Restarted:  n.restartedAt.Load() == n.chain.height(),
		Base64Keys: n.base64Keys.Load(),
	}
}

// Forks returns the number of rollbacks to below a height.
func (n *Node) Forks(h int64) int64 { return n.chain.forksBelow(h) }

// Block returns the time and the hashes in a block's header.
func (n *Node) Block(h int64) (at time.Time, hash, appHash []byte) {
	return n.chain.blockTime(h), n.chain.hash("block", h), n.chain.hash("app", h)
}

// Restart simulates a restart of the node: in the dialect cosmos, reads of the latest height fail until the next block.
// The end of an outage does the same.
func (n *Node) Restart() { n.restartedAt.Store(n.chain.height()) }

// Handle adds a path to the node's REST server, or a method to its RPC if name does not begin with a slash, as another
// release of the node might have. A method's handler gets the request as the client sent it.
func (n *Node) Handle(name string, h http.HandlerFunc) {
	n.handlers.Store("/"+strings.TrimPrefix(name, "/"), h)
}

// withAdded serves the added paths and methods, and everything else by next.
func (n *Node) withAdded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve := next
		if h, ok := n.handlers.Load(called(r)); ok {
			serve = h.(http.HandlerFunc) //nolint:forcetypeassert // Handle stores no others
		}
		serve.ServeHTTP(w, r)
	})
}

// called returns the path of a request, or the method that it calls by JSON-RPC, after a slash.
func called(r *http.Request) string {
	if r.URL.Path != "/" || r.Method != http.MethodPost {
		return r.URL.Path
	}
	body, _ := io.ReadAll(r.Body) // the handler sees a truncated body
	r.Body = io.NopCloser(bytes.NewReader(body))
	return "/" + gjson.GetBytes(body, "method").Str
}

const heightHeader = "X-Cosmos-Block-Height"

// serveGRPC serves the methods of abci_query by gRPC, without compression.
func (n *Node) serveGRPC(w http.ResponseWriter, r *http.Request) {
	var head [5]byte // a flag, and the length of the message; clients of reflection keep the body open after it
	_, err := io.ReadFull(r.Body, head[:])
	message := make([]byte, min(binary.BigEndian.Uint32(head[1:]), 10<<20))
	if _, short := io.ReadFull(r.Body, message); err != nil || short != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	method := r.URL.Path
	height, _ := strconv.ParseInt(r.Header.Get(heightHeader), 10, 64) // 0 means the newest
	a := cosmos.Answer{Height: max(height, 1), Value: protofield.Append(nil, 1, protofield.Append(nil, 4, n.chain.id))}
	switch {
	case height == 0 && n.Now().Restarted:
		text := fmt.Sprintf("context did not contain latest block height in either check state or finalize block state (%d)", n.Height())
		a = cosmos.Answer{Status: codes.Unknown, Message: "codespace sdk code 26: invalid height: " + text, Code: 26}
	case !strings.HasSuffix(method, ".Service/GetNodeInfo"):
		a = n.chain.cosmos.Query(n, method, message, height)
		n.asked.Count("grpc "+method+"?"+hex.EncodeToString(message), a.Height)
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	if a.Height > 0 {
		h.Set(heightHeader, strconv.FormatInt(a.Height, 10))
	}
	if a.Code == 0 {
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(a.Value))), a.Value...)) //nolint:gosec // no answer has 4 GiB
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(a.Status)))
	h.Set(http.TrailerPrefix+"Grpc-Message", a.Message)
}
