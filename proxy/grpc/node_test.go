package grpc_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// An exchange is a request by gRPC or gRPC-Web to a node of wasmd v0.61.14 at block 746, with its response. Messages
// are in hexadecimal.
type exchange struct {
	Name     string
	Web      bool
	Method   string // HTTP method of gRPC-Web
	Path     string
	Metadata map[string][]string
	Message  string
	Raw      *string // frames of the request; nil means one frame with Message. Not used by gRPC-Web
	Body     string  // request body of gRPC-Web
	Status   int     // HTTP status
	Headers  map[string]string
	Messages []string
	Trailers map[string]string // nil if the headers hold the status
	Answer   string            // response body of gRPC-Web
}

// An rpcExchange is a call of the same node's RPC with its response.
type rpcExchange struct {
	Method string
	Params map[string]any
	Answer string
}

// noReply as recordedNode.failure makes the RPC close the connection.
const noReply = "no reply"

// A recordedNode answers as the real node did, and counts its requests.
type recordedNode struct {
	byGRPC  map[string]exchange // by callKey
	byRPC   map[string]string   // results by rpcKey
	failure string              // data of the RPC error for other calls; default "not recorded"
	server  *grpc.Server
	addr    string
	rpc     *httptest.Server
	rest    *httptest.Server

	mu       sync.Mutex
	counts   map[string]int
	upgraded bool                     // reflection knows volume
	surplus  int                      // methods that reflection describes in addition
	new      bool                     // the node has just started, and its gRPC does not know a newest block yet
	held     map[string]chan struct{} // methods whose status waits until the channel is closed

	service func(stream grpc.ServerStream) error                 // serves the methods of package x after their first message
	reflect func(stream grpc.ServerStream, message []byte) error // serves reflection; nil uses the recordings
}

func newRecordedNode(t testing.TB) *recordedNode {
	t.Helper()
	n := &recordedNode{byGRPC: map[string]exchange{}, byRPC: map[string]string{}, counts: map[string]int{}}
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		if !x.Web && x.Raw == nil && (!strings.HasPrefix(x.Name, "restart") || x.Trailers["grpc-status"] == "0") && x.Status == http.StatusOK {
			n.byGRPC[callKey(x.Path, x.Message, x.Metadata["x-cosmos-block-height"]...)] = x
		}
	}
	for _, x := range nodetest.Recorded[rpcExchange](t, "testdata/rpc.jsonl") {
		var answer struct{ Result json.RawMessage }
		if json.Unmarshal([]byte(x.Answer), &answer) == nil && answer.Result != nil {
			n.byRPC[rpcKey(x.Method, x.Params)] = string(answer.Result)
		}
	}
	n.rpc = httptest.NewServer(http.HandlerFunc(n.serveRPC))
	t.Cleanup(n.rpc.Close)
	n.rest = nodetest.REST(t, 746)
	n.listen(t)
	return n
}

func (n *recordedNode) listen(t testing.TB) {
	t.Helper()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	n.addr = l.Addr().String()
	n.server = grpc.NewServer(grpc.ForceServerCodecV2(node.Bytes{}), grpc.UnknownServiceHandler(n.serveGRPC))
	var served sync.WaitGroup
	served.Go(func() { _ = n.server.Serve(l) })
	t.Cleanup(func() { n.server.Stop(); served.Wait() })
}

// callKey returns the same text for all forms of a call that mean the same to the node. Without one height it is that
// of the newest block.
func callKey(path, message string, height ...string) string {
	at := "746"
	if len(height) == 1 && height[0] != "0" {
		at = strings.TrimLeft(height[0], "0")
	}
	return path + "?" + message + "@" + at
}

// rpcKey is callKey for a call of the RPC.
func rpcKey(method string, params map[string]any) string {
	if method != "abci_query" {
		return method + fmt.Sprint(params["tx"])
	}
	height, _ := params["height"].(string)
	data, _ := params["data"].(string)
	path, _ := params["path"].(string)
	if params["prove"] == true {
		path += "!"
	}
	return callKey(path, strings.ToLower(data), "0"+height)
}

// change changes the node while it runs.
func (n *recordedNode) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *recordedNode) count(request string) { n.change(func() { n.counts[request]++ }) }

// requests returns the number of requests that begin with a prefix.
func (n *recordedNode) requests(prefix string) (requests int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for request, count := range n.counts {
		if strings.HasPrefix(request, prefix) {
			requests += count
		}
	}
	return requests
}

func (n *recordedNode) serveGRPC(_ any, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	height := md.Get("x-cosmos-block-height")
	n.count("gRPC " + path + "@" + strings.Join(height, ","))
	n.mu.Lock()
	isNew, held, service, reflect := n.new, n.held[path], n.service, n.reflect
	n.mu.Unlock()
	if strings.HasPrefix(path, "/x.") {
		return service(stream)
	}
	if reflect != nil && strings.HasPrefix(path, "/grpc.reflection.") {
		return reflect(stream, message)
	}
	if isNew && len(height) == 0 {
		return status.Error(codes.Unknown, "codespace sdk code 26: invalid height: context did not contain latest block height in either check state or finalize block state (746)")
	}
	key := callKey(path, hex.EncodeToString(message), height...)
	x, known := n.byGRPC[key]
	if !known && len(height) == 1 { // the method may ignore heights
		x, known = n.byGRPC[callKey(path, hex.EncodeToString(message))]
	}
	if !known {
		return status.Error(codes.Unimplemented, "not recorded: "+key)
	}
	end := x.Trailers
	if end == nil {
		end = x.Headers
	}
	if at := x.Headers["x-cosmos-block-height"]; at != "" {
		_ = stream.SetHeader(metadata.Pairs("x-cosmos-block-height", at))
	}
	for _, m := range x.Messages {
		reply, _ := hex.DecodeString(m)
		_ = stream.SendMsg(&reply)
	}
	if held != nil {
		select {
		case <-held:
		case <-stream.Context().Done(): // the deadline may pass here before it passes at the client
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
	var code codes.Code
	_ = code.UnmarshalJSON([]byte(end["grpc-status"]))
	return status.Error(code, end["grpc-message"])
}

func (n *recordedNode) serveRPC(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Method string
		Params map[string]any
	}
	switch {
	case r.URL.Path == "/websocket":
		nodetest.ServeSocket(w, r)
		return
	case r.Method == http.MethodGet:
		c.Method = strings.TrimPrefix(r.URL.Path, "/")
	default:
		_ = json.NewDecoder(r.Body).Decode(&c)
	}
	key := rpcKey(c.Method, c.Params)
	if c.Method == "abci_query" {
		n.count("RPC " + key)
	} else {
		n.count("RPC " + c.Method)
	}
	member := fmt.Sprintf(`"error":{"code":-32603,"message":"Internal error","data":%q}`, cmp.Or(n.failure, "not recorded"))
	if result, known := n.byRPC[key]; known {
		member = `"result":` + result
	} else if c.Method == "abci_query" {
		member = `"result":{"response":{"code":6,"log":"unknown query path: unknown request","info":"","index":"0","key":null,"value":null,"proofOps":null,"height":"0","codespace":"sdk"}}`
	} else if n.failure == noReply {
		panic(http.ErrAbortHandler)
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,%s}`, member)
}

// setService sets the function that serves the methods of package x.
func (n *recordedNode) setService(service func(grpc.ServerStream) error) {
	n.change(func() { n.service = service })
}

// hold makes the status of a method wait until release is called or the test ends.
func (n *recordedNode) hold(t testing.TB, path string) (release func()) {
	held := make(chan struct{})
	n.change(func() { n.held = map[string]chan struct{}{path: held} })
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	return release
}

func (n *recordedNode) pool(t testing.TB, grpcAddress string) *node.Pool {
	t.Helper()
	return nodetest.Run(t, node.Options{Endpoints: []node.Endpoint{{REST: n.rest.URL, Comet: n.rpc.URL, GRPC: grpcAddress}}}, 746)
}
