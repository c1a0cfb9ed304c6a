package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// A fakeNode is a chain node on real sockets, with REST and CometBFT's RPC on one listener. After start its fields are
// changed through change.
type fakeNode struct {
	t       *testing.T
	address string
	grpc    string // address of its gRPC server, or ""

	mu         sync.Mutex
	server     *httptest.Server
	chain      string
	height     int64 // committed
	lowest     int64 // lower heights are pruned
	earliest   int64 // in /status
	ahead      int64 // added to the height in /status, as a real node does
	lie        int64 // added to the height in /status, /abci_info and headers
	hang       bool  // /abci_info does not respond, as if the execution client hangs
	catchingUp bool
	mute       bool  // sends no headers, but leaves the sockets open
	noSocket   bool  // refuses WebSockets
	forkedAt   int64 // blocks at or after it have other hashes; 0 means none
	blockTime  time.Time
	rest       http.HandlerFunc // replaces the usual responses, except to probes; nil means none
	front      http.HandlerFunc // replaces all responses to GET or, with frontRPC, to POST; nil means none
	frontRPC   bool
	sockets    []*websocket.Conn
	heights    []string // X-Block-Height of the requests, "" for none, without the pool's probes
	checks     int      // requests for /status
	blocks     []int64  // heights of the requests for /block

	executionAhead int64 // block h contains block h+executionAhead of the execution client; 0 means none
}

func newFakeNode(t *testing.T, height int64) *fakeNode {
	t.Helper()
	n := &fakeNode{t: t, chain: "story-1", height: height, blockTime: time.Now()}
	n.start(porttest.Address(t))
	t.Cleanup(n.stop)
	return n
}

func (n *fakeNode) start(address string) {
	n.t.Helper()
	listener := expect.Value(net.Listen("tcp", address))(n.t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", n.serveCall)
	mux.HandleFunc("/websocket", n.serveSocket)
	mux.HandleFunc("/", n.serveREST)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var front http.HandlerFunc
		n.change(func() {
			if n.frontRPC == (r.Method == http.MethodPost) && r.URL.Path != "/websocket" {
				front = n.front
			}
		})
		if front == nil {
			front = mux.ServeHTTP
		}
		front(w, r)
	})}}
	server.Start()
	n.change(func() { n.server, n.address = server, listener.Addr().String() })
}

// stop ends the node as if its process were killed, without close frames.
func (n *fakeNode) stop() {
	n.drop()
	n.server.CloseClientConnections()
	n.server.Close()
}

func (n *fakeNode) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *fakeNode) endpoint() Endpoint {
	return Endpoint{REST: "http://" + n.address, Comet: "tcp://" + n.address, GRPC: n.grpc}
}

// commit creates blocks up to a height and streams the header of the last one.
func (n *fakeNode) commit(height int64) {
	n.change(func() {
		n.height, n.blockTime = height, time.Now()
		if !n.mute {
			n.stream(height)
		}
	})
}

// stream sends a header to all subscribers. The caller must hold mu.
func (n *fakeNode) stream(height int64) {
	event := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"query":"tm.event='NewBlockHeader'","data":{"type":"tendermint/event/NewBlockHeader",`+
		`"value":{"header":{"version":{"block":"11"},"chain_id":%q,"height":"%d","time":%q,"last_block_id":{"hash":%q}}}}}}`,
		n.chain, height+n.lie, n.blockTime.UTC().Format(time.RFC3339Nano), n.hash(height-1))
	for _, conn := range n.sockets {
		_ = conn.Write(context.Background(), websocket.MessageText, []byte(event))
	}
}

// hash returns the hash of a block. The caller must hold mu.
func (n *fakeNode) hash(height int64) string {
	if n.forkedAt > 0 && height >= n.forkedAt {
		return fmt.Sprintf("F0%d", height)
	}
	return fmt.Sprintf("A0%d", height)
}

// serveCall responds to an RPC call.
func (n *fakeNode) serveCall(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	height := gjson.GetBytes(body, "params.height").Int()
	switch gjson.GetBytes(body, "method").Str {
	case "status":
		n.serveStatus(w)
	case "abci_info":
		n.serveInfo(w, r)
	case "header":
		n.serveHeader(w, height)
	case "block":
		n.serveBlock(w, r, height)
	default:
		n.serveREST(w, r)
	}
}

func (n *fakeNode) serveHeader(w http.ResponseWriter, height int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if height > n.height {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"no such block"}}`)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"header":{"chain_id":%q,"height":"%d","last_block_id":{"hash":%q}}}}`, n.chain, height, n.hash(height-1))
}

// serveBlock responds with a block that contains a block of the execution client.
func (n *fakeNode) serveBlock(w http.ResponseWriter, r *http.Request, height int64) {
	var ahead int64
	n.change(func() { ahead, n.blocks = n.executionAhead, append(n.blocks, height) })
	if ahead == 0 {
		n.serveREST(w, r)
		return
	}
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	payload := protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), uint64(height+ahead))
	message := slices.Concat(field(1, []byte("/story.evmengine.v1.types.MsgExecutionPayload")), field(2, field(4, payload)))
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"block":{"header":{"height":"%d"},"data":{"txs":[%q]}}}}`,
		height, base64.StdEncoding.EncodeToString(field(1, field(1, message))))
}

// drop closes the WebSockets without close frames.
func (n *fakeNode) drop() {
	n.change(func() {
		for _, conn := range n.sockets {
			_ = conn.CloseNow()
		}
		n.sockets = nil
	})
}

// requestedHeights returns the heights of the requests so far.
func (n *fakeNode) requestedHeights() (all []string) {
	n.change(func() { all = slices.Clone(n.heights) })
	return all
}

func (n *fakeNode) serveStatus(w http.ResponseWriter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checks++
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"node_info":{"network":%q},"sync_info":{"latest_block_height":"%d",`+
		`"latest_block_time":%q,"earliest_block_height":"%d","catching_up":%t}}}`,
		n.chain, n.height+n.ahead+n.lie, n.blockTime.UTC().Format(time.RFC3339Nano), n.earliest, n.catchingUp)
}

func (n *fakeNode) serveInfo(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	if n.hang {
		n.mu.Unlock()
		stall(w, r)
		return
	}
	defer n.mu.Unlock()
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"response":{"data":"story","version":"v1.5.3","last_block_height":"%d"}}}`, n.height+n.lie)
}

func (n *fakeNode) serveSocket(w http.ResponseWriter, r *http.Request) {
	refused := false
	n.change(func() { refused = n.noSocket })
	if refused {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	if _, _, err := conn.Read(r.Context()); err != nil {
		return
	}
	n.change(func() {
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		n.sockets = append(n.sockets, conn)
	})
	_, _, _ = conn.Read(context.Background()) // responds to pings until the connection ends
	n.change(func() {
		n.sockets = slices.DeleteFunc(n.sockets, func(c *websocket.Conn) bool { return c == conn })
	})
}

func (n *fakeNode) serveREST(w http.ResponseWriter, r *http.Request) {
	requested := r.Header.Get("X-Block-Height")
	var height, lowest int64
	var instead http.HandlerFunc
	n.change(func() {
		height, lowest, instead = n.height, n.lowest, n.rest
		if r.URL.Path != storyProbe {
			n.heights = append(n.heights, requested)
		}
	})
	if instead != nil && r.URL.Path != storyProbe {
		instead(w, r)
		return
	}
	at, err := strconv.ParseInt(requested, 10, 64)
	if err != nil {
		at = height
	}
	switch {
	case at > height:
		refuse(w, "failed to create query context: cannot query with height in the future; please provide a valid height: invalid height")
	case at < lowest:
		refuse(w, fmt.Sprintf("failed to create query context: failed to load state at height %d; version mismatch on immutable IAVL tree; version does not exist. Version has either been pruned, or is for a future block height (latest height: %d): invalid request", at, height))
	default:
		fmt.Fprintf(w, `{"code":200,"msg":{"node":%q,"height":%d},"error":""}`+"\n", n.address, at)
	}
}

func refuse(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, `{"code":500,"msg":null,"error":%q}`+"\n", text)
}

// storyProbe is the path of the pool's probes.
const storyProbe = "/auth/params"
