package grpc_test

import (
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

// An exchange is one by gRPC or gRPC-Web with a real node, of wasmd v0.61.14, whose chain stood at
// block 746. Messages are in hexadecimal.
type exchange struct {
	Name     string
	Web      bool
	Method   string // of HTTP, by gRPC-Web
	Path     string
	Metadata map[string][]string
	Message  string
	Raw      *string // the frames that were sent, where they are not those of the message; by gRPC-Web Body
	Body     string
	Status   int // of HTTP
	Headers  map[string]string
	Messages []string
	Trailers map[string]string // nil: all was in the headers
	Answer   string            // of gRPC-Web
}

// A said is what the RPC of that node answered to a call.
type said struct {
	Method string
	Params map[string]any
	Answer string
}

// A recordedNode answers as the real node did, and counts what it is asked.
type recordedNode struct {
	byGRPC map[string]exchange
	byRPC  map[string]string
	server *grpc.Server
	addr   string
	rpc    *httptest.Server
	rest   *httptest.Server

	mu    sync.Mutex
	asked map[string]int
	new   bool                     // it has just started, and no block has come: it knows no newest one by gRPC
	held  map[string]chan struct{} // methods whose status comes once their channel is closed

	serve   func(stream grpc.ServerStream) error                 // answers methods of the package x, once the message has come
	reflect func(stream grpc.ServerStream, message []byte) error // answers reflection; nil has none but what was recorded
}

func newRecordedNode(t testing.TB) *recordedNode {
	t.Helper()
	n := &recordedNode{byGRPC: map[string]exchange{}, byRPC: map[string]string{}, asked: map[string]int{}}
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		if !x.Web && x.Raw == nil && (!strings.HasPrefix(x.Name, "restart") || x.Trailers["grpc-status"] == "0") && x.Status == http.StatusOK {
			n.byGRPC[meaning(x.Path, x.Message, x.Metadata["x-cosmos-block-height"])] = x
		}
	}
	for _, s := range nodetest.Recorded[said](t, "testdata/rpc.jsonl") {
		var answer struct{ Result json.RawMessage }
		if json.Unmarshal([]byte(s.Answer), &answer) == nil && answer.Result != nil {
			n.byRPC[meaningOfCall(s.Method, s.Params)] = string(answer.Result)
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

// meaning is one text for all spellings of a call that the node reads alike.
func meaning(path, message string, height []string) string {
	at := "746"
	if len(height) == 1 && height[0] != "0" {
		at = strings.TrimLeft(height[0], "0")
	}
	return path + "?" + message + "@" + at
}

func meaningOfCall(method string, params map[string]any) string {
	if method != "abci_query" {
		return method + fmt.Sprint(params["tx"])
	}
	height, _ := params["height"].(string)
	data, _ := params["data"].(string)
	path, _ := params["path"].(string)
	if params["prove"] == true {
		path += "!"
	}
	return meaning(path, strings.ToLower(data), []string{strings.TrimSuffix("0"+height, "")}[:1])
}

func (n *recordedNode) count(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[what]++
}

// times is how often the node was asked for what begins so.
func (n *recordedNode) times(beginning string) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for what, asked := range n.asked {
		if strings.HasPrefix(what, beginning) {
			times += asked
		}
	}
	return times
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
	isNew, held, serve, reflect := n.new, n.held[path], n.serve, n.reflect
	n.mu.Unlock()
	if strings.HasPrefix(path, "/x.") {
		return serve(stream)
	}
	if reflect != nil && strings.HasPrefix(path, "/grpc.reflection.") {
		return reflect(stream, message)
	}
	if isNew && len(height) == 0 {
		return status.Error(codes.Unknown, "codespace sdk code 26: invalid height: context did not contain latest block height in either check state or finalize block state (746)")
	}
	x, known := n.byGRPC[meaning(path, hex.EncodeToString(message), height)]
	if !known && len(height) == 1 { // a method that ignores heights
		x, known = n.byGRPC[meaning(path, hex.EncodeToString(message), nil)]
	}
	if !known {
		return status.Error(codes.Unimplemented, "not recorded: "+meaning(path, hex.EncodeToString(message), height))
	}
	told := x.Trailers
	if told == nil {
		told = x.Headers
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
		case <-stream.Context().Done(): // the node's end may be told before the client's time is over
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
	var code codes.Code
	_ = code.UnmarshalJSON([]byte(told["grpc-status"]))
	return status.Error(code, told["grpc-message"])
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
	what := meaningOfCall(c.Method, c.Params)
	if c.Method == "abci_query" {
		n.count("RPC " + what)
	} else {
		n.count("RPC " + c.Method)
	}
	member := `"error":{"code":-32603,"message":"Internal error","data":"not recorded"}`
	if result, known := n.byRPC[what]; known {
		member = `"result":` + result
	} else if c.Method == "abci_query" {
		member = `"result":{"response":{"code":6,"log":"unknown query path: unknown request","info":"","index":"0","key":null,"value":null,"proofOps":null,"height":"0","codespace":"sdk"}}`
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,%s}`, member)
}

// answer sets what serves the methods of the package x.
func (n *recordedNode) answer(serve func(grpc.ServerStream) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serve = serve
}

// hold has the status of a method wait until it is let go.
func (n *recordedNode) hold(path string) (letGo func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := make(chan struct{})
	n.held = map[string]chan struct{}{path: held}
	return sync.OnceFunc(func() { close(held) })
}

func (n *recordedNode) pool(t testing.TB, grpcAddress string) *node.Pool {
	t.Helper()
	return nodetest.Run(t, node.Options{Endpoints: []node.Endpoint{{REST: n.rest.URL, Comet: n.rpc.URL, GRPC: grpcAddress}}}, 746)
}
