package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/porttest"
)

const (
	aMethod  = "/cosmos.bank.v1beta1.Query/Balance"
	aTx      = "/cosmos.tx.v1beta1.Service/BroadcastTx"
	nodeInfo = "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo"
)

// A grpcNode is the gRPC server of a node. It responds to a method with its address, at the requested height or else 100.
type grpcNode struct {
	t       *testing.T
	address string
	server  *grpc.Server
	served  sync.WaitGroup

	mu      sync.Mutex
	chain   string
	refusal *status.Status // nil means none
	handled bool           // the refusal comes from the handler of a method
	gate    chan struct{}  // calls wait until it is closed; nil means none
	methods []string       // called methods, except the pool's own requests
	reply   []byte         // response; nil means the address

	header, trailer metadata.MD // metadata of responses; if both are nil, the header has the requested height
}

func (n *grpcNode) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// startGRPC starts the server of a chain at an address.
func startGRPC(t *testing.T, address, chain string, options ...grpc.ServerOption) *grpcNode {
	t.Helper()
	n := &grpcNode{t: t, chain: chain}
	l := expect.Value(net.Listen("tcp", address))(t)
	n.address = l.Addr().String()
	n.server = grpc.NewServer(append(options, grpc.ForceServerCodecV2(Bytes{}), grpc.UnknownServiceHandler(n.serve))...)
	n.served.Go(func() { _ = n.server.Serve(l) })
	t.Cleanup(n.stop)
	return n
}

func (n *grpcNode) stop() {
	n.server.Stop()
	n.served.Wait()
}

func (n *grpcNode) serve(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	n.mu.Lock()
	chain, refusal, handled, gate, header, trailer := n.chain, n.refusal, n.handled, n.gate, n.header, n.trailer
	reply := n.reply
	if method != nodeInfo {
		n.methods = append(n.methods, method)
	}
	n.mu.Unlock()
	var message []byte
	if err := s.RecvMsg(&message); err != nil {
		return err
	}
	if method == nodeInfo {
		network := protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), chain)
		reply := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), network)
		return s.SendMsg(&reply)
	}
	if gate != nil {
		select {
		case <-gate:
		case <-s.Context().Done():
		}
	}
	height := "100"
	if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get(heightKey)) > 0 {
		height = md.Get(heightKey)[0]
	}
	if header != nil || trailer != nil {
		s.SetTrailer(trailer)
		_ = s.SetHeader(header)
	} else if refusal == nil || handled {
		_ = s.SetHeader(metadata.Pairs(heightKey, height))
	}
	if refusal != nil {
		return refusal.Err()
	}
	if reply == nil {
		reply = []byte(n.address)
	}
	if size, ok := strings.CutPrefix(method, "/a.Service/Long"); ok {
		long, _ := strconv.Atoi(size)
		reply = make([]byte, long)
	}
	return s.SendMsg(&reply)
}

func (n *grpcNode) refuse(code codes.Code, text string, handled bool) {
	n.change(func() { n.refusal, n.handled = status.New(code, text), handled })
}

// calls returns the number of calls of a method.
func (n *grpcNode) calls(method string) (calls int) {
	n.change(func() {
		for _, called := range n.methods {
			if called == method {
				calls++
			}
		}
	})
	return calls
}

// runGRPC runs a pool in front of one node at block 100 per gRPC address.
func runGRPC(t *testing.T, o Options, addresses ...string) *Pool {
	t.Helper()
	var nodes []*fakeNode
	for _, address := range addresses {
		n := newFakeNode(t, 100)
		n.grpc = address
		nodes = append(nodes, n)
	}
	o.BlockInterval = time.Minute
	p := run(t, o, nodes...)
	wantTip(t, p, 100)
	return p
}

// waitForGRPC waits until the state of the n-th node's gRPC begins with state.
func waitForGRPC(t *testing.T, p *Pool, n int, state string) {
	t.Helper()
	expect.Eventually(t, "gRPC "+state, func() bool { return strings.HasPrefix(p.Health()[n].GRPC, state) })
}

func invoke(t *testing.T, p *Pool, method string, height int64) (*Answer, error) {
	t.Helper()
	return p.Fetch(within(t, 20*time.Second), Request{Height: height, Invoke: &Invocation{Method: method, Write: method == aTx}})
}

func TestMethodIsCalledByGRPC(t *testing.T) {
	t.Parallel()
	tls := grpc.Creds(credentials.NewServerTLSFromCert(&certificate.TLS.Certificates[0]))
	for name, c := range map[string]struct {
		scheme  string
		options []grpc.ServerOption
	}{"plain text": {}, "plain text with scheme": {scheme: "http://"}, "TLS": {"https://", []grpc.ServerOption{tls}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startGRPC(t, "127.0.0.1:0", "story-1", c.options...)
			p := runGRPC(t, Options{}, c.scheme+n.address)
			waitForGRPC(t, p, 0, "ok")
			for _, height := range []int64{AtTip, 50} {
				a, err := invoke(t, p, aMethod, height)
				if err != nil || string(a.Body) != n.address || a.Type != MessageType || a.Height != map[int64]int64{AtTip: 100, 50: 50}[height] {
					t.Errorf("Fetch at %d = %+v, %v; want %s at this height", height, a, err, n.address)
				}
			}
		})
	}
}

func TestGRPCDoesNotFallBackFromTLS(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, "https://"+n.address)
	if _, err := invoke(t, p, aMethod, AtTip); upstream.KindOf(err) != upstream.Unreachable || p.Health()[0].GRPC == stateOK || n.calls(aMethod) != 0 {
		t.Errorf("Fetch = %v after %d calls, want unreachable after 0", err, n.calls(aMethod))
	}
}

func TestGRPCServerOfAnotherChainIsNotUsed(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	n := startGRPC(t, "127.0.0.1:0", "other-1")
	p := runGRPC(t, Options{ChainID: "story-1", Logger: slog.New(slog.NewTextHandler(&log, nil))}, n.address)
	waitForGRPC(t, p, 0, `serves chain "other-1" instead of "story-1"`)
	_, err := invoke(t, p, aMethod, AtTip)
	_, streamErr := p.Stream(within(t, time.Minute), aMethod)
	if upstream.KindOf(err) != upstream.Unreachable || streamErr == nil || p.Health()[0].GRPC == stateOK || n.calls(aMethod) != 0 {
		t.Errorf("Fetch = %v and Stream = %v after %d calls, want unreachable after 0", err, streamErr, n.calls(aMethod))
	}
	if log.Count("serves another chain") != 1 {
		t.Errorf("log = %s, want one line about the chain", log.String())
	}
}

func TestGRPCServerOfANodeBehindTheTipIsUsed(t *testing.T) {
	t.Parallel()
	ahead, behind := newFakeNode(t, 1000), newFakeNode(t, 900)
	behind.grpc = porttest.Address(t)
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, BlockInterval: time.Minute}, ahead, behind)
	wantTip(t, p, 1000)
	expect.EventuallyEqual(t, "the height of the node behind", func() int64 { return p.Health()[1].Height }, 900)
	startGRPC(t, behind.grpc, "story-1", grpc.StreamInterceptor(func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if md, _ := metadata.FromIncomingContext(s.Context()); !slices.Contains(md.Get(heightKey), "900") {
			return status.Error(codes.InvalidArgument, "cannot query with height in the future; please provide a valid height")
		}
		return handle(server, s)
	}))
	waitForGRPC(t, p, 1, "ok")
	ahead.stop()
	if a, err := invoke(t, p, aMethod, AtTip); err != nil || a.Height != 900 {
		t.Errorf("Fetch = %+v, %v; want an answer at 900", a, err)
	}
}

func TestReconnectedGRPCServerIsCheckedAgain(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{ChainID: "story-1"}, n.address)
	for _, chain := range []string{"other-1", "story-1"} {
		waitForGRPC(t, p, 0, map[string]string{"other-1": "ok", "story-1": "serves"}[chain])
		n.stop()
		expect.Eventually(t, "gRPC not ok", func() bool { return p.Health()[0].GRPC != "ok" })
		n = startGRPC(t, n.address, chain)
	}
	waitForGRPC(t, p, 0, "ok")
	if a, err := invoke(t, p, aMethod, AtTip); err != nil || string(a.Body) != n.address {
		t.Errorf("Fetch = %+v, %v, want the answer of %s", a, err, n.address)
	}
}

func TestFetchUsesAnotherNodeWhileGRPCIsDown(t *testing.T) {
	t.Parallel()
	one, two := startGRPC(t, "127.0.0.1:0", "story-1"), startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, one.address, two.address, "")
	waitForGRPC(t, p, 0, "ok")
	waitForGRPC(t, p, 1, "ok")
	waitForGRPC(t, p, 2, "off")
	one.stop()
	for range 2 * maxFailures { // its breaker must not affect the other node
		if a, err := invoke(t, p, aMethod, AtTip); err != nil || string(a.Body) != two.address {
			t.Fatalf("Fetch = %+v, %v; want the answer of %s", a, err, two.address)
		}
	}
	two.stop()
	if _, err := invoke(t, p, aMethod, AtTip); upstream.KindOf(err) != upstream.Unreachable {
		t.Errorf("Fetch without a server = %v, want kind %v", err, upstream.Unreachable)
	}
	if err := p.Ready(); err != nil {
		t.Errorf("Ready without gRPC = %v, want nil", err)
	}
}

func TestTransactionIsSentByGRPCOnce(t *testing.T) {
	t.Parallel()
	one, two, p := runTwoGRPC(t)
	one.refuse(codes.Unavailable, "may have been accepted", false)
	two.refuse(codes.Unavailable, "may have been accepted", false)
	if _, err := invoke(t, p, aTx, AtTip); err == nil || one.calls(aTx)+two.calls(aTx) != 1 {
		t.Errorf("Fetch = %v after %d calls, want an error after 1", err, one.calls(aTx)+two.calls(aTx))
	}
}

func TestGRPCStatusesAreClassified(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, n.address)
	waitForGRPC(t, p, 0, "ok")
	for _, c := range []struct {
		code    codes.Code
		text    string
		handled bool
		at      int64
		want    Answer
	}{
		{codes.NotFound, "account not found", true, 50, Answer{Reason: Refused, Type: StatusType, Height: 50}},
		{codes.Unavailable, "a handler's own", true, 50, Answer{Reason: Refused, Type: StatusType, Height: 50}},
		{codes.Internal, "Value missing for key", true, 50, Answer{Reason: Refused, Type: StatusType, Height: 50}},
		{codes.Unknown, "codespace sdk code 18: invalid request: failed to load state at height 7; version does not exist", false, 7, Answer{Reason: Pruned, Type: UnrunType, Height: 7}},
		{codes.Unknown, "codespace sdk code 26: invalid height: cannot query with height in the future", false, 200, Answer{Reason: FutureHeight, Type: UnrunType, Height: 200}},
		{codes.Unknown, "context did not contain latest block height in either check state or finalize block state (100)", false, 50, Answer{Reason: Other, Type: UnrunType}},
		{codes.Unimplemented, "unknown service", false, 50, Answer{Reason: BadInput, Type: UnrunType}},
	} {
		n.refuse(c.code, c.text, c.handled)
		a := expect.Value(invoke(t, p, aMethod, c.at))(t)
		if a.Reason != c.want.Reason || a.Type != c.want.Type || a.Height != c.want.Height {
			t.Errorf("answer for %q = %v, type %q, height %d; want %v, %q, %d", c.text, a.Reason, a.Type, a.Height, c.want.Reason, c.want.Type, c.want.Height)
		}
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
		n.refuse(code, "no handler", false)
		if a, err := invoke(t, p, aMethod, AtTip); err == nil {
			t.Errorf("Fetch with status %v = %+v, want an error", code, a)
		}
	}
}

// chainMessage is the response of a server that names its chain.
const chainMessage = "\x00\x00\x00\x00\x0b\x0a\x09\x22\x07story-1"

// newHTTP2 starts an HTTP/2 server whose responses have the type of gRPC, unless respond changes it.
func newHTTP2(t *testing.T, respond http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		respond(w, r)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// runHTTP2 runs a pool with a gRPC server that names its chain, and responds to other requests as respond does.
func runHTTP2(t *testing.T, o Options, respond http.HandlerFunc) *Pool {
	t.Helper()
	server := newHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path != nodeInfo {
			respond(w, r)
			return
		}
		_, _ = io.WriteString(w, chainMessage)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	p := runGRPC(t, o, server.Listener.Addr().String())
	waitForGRPC(t, p, 0, "ok")
	return p
}

// runTwoGRPC runs a pool of two nodes whose gRPC servers work.
func runTwoGRPC(t *testing.T) (one, two *grpcNode, p *Pool) {
	t.Helper()
	one, two = startGRPC(t, "127.0.0.1:0", "story-1"), startGRPC(t, "127.0.0.1:0", "story-1")
	p = runGRPC(t, Options{}, one.address, two.address)
	waitForGRPC(t, p, 0, "ok")
	waitForGRPC(t, p, 1, "ok")
	return one, two, p
}

// wantUnknownOutcome sends a transaction, which the node may have received.
func wantUnknownOutcome(t *testing.T, p *Pool) {
	t.Helper()
	if a, err := invoke(t, p, aTx, AtTip); !upstream.MayHaveRun(err) {
		t.Errorf("Fetch of a transaction = %+v, %v; want an unknown outcome", a, err)
	}
}

func TestGRPCMessageThatCannotBeReadIsNoRefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ encoding, message string }{
		"cut in its head":        {"", "\x00\x00"},
		"cut":                    {"", "\x00\x00\x00\x00\x09abc"},
		"with an unknown flag":   {"", "\x07\x00\x00\x00\x03abc"},
		"compressed in no way":   {"", "\x01\x00\x00\x00\x03abc"},
		"compressed unknowingly": {"snappy", "\x01\x00\x00\x00\x03abc"},
		"compressed wrongly":     {"gzip", "\x01\x00\x00\x00\x03abc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := runHTTP2(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(heightKey, "100")
				w.Header().Set("Grpc-Encoding", tt.encoding)
				_, _ = io.WriteString(w, tt.message)
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			})
			for range 2 * maxFailures {
				if a, err := invoke(t, p, aMethod, AtTip); upstream.KindOf(err) != upstream.BadAnswer {
					t.Fatalf("Fetch = %+v, %v; want a bad answer", a, err)
				}
			}
			wantUnknownOutcome(t, p)
		})
	}
}

func TestTransactionWhoseHeightIsRefusedIsSentOnce(t *testing.T) {
	t.Parallel()
	one, two, p := runTwoGRPC(t)
	for i, text := range []string{
		"codespace sdk code 26: invalid height: cannot query with height in the future; please provide a valid height",
		"codespace sdk code 18: invalid request: failed to load state at height 7; version does not exist (latest height: 100)",
	} {
		one.refuse(codes.Unknown, text, false)
		two.refuse(codes.Unknown, text, false)
		a, err := p.Fetch(within(t, 20*time.Second), Request{Height: AtTip, Unpinned: true, Invoke: &Invocation{Method: aTx, Write: true}})
		if err != nil || a.Text != text {
			t.Errorf("Fetch = %+v, %v; want %s", a, err, text)
		}
		expect.Equal(t, one.calls(aTx)+two.calls(aTx), i+1, "sent transactions after %s", text)
	}
}

func TestGatewayThatLosesATransactionDoesNotRefuseIt(t *testing.T) {
	t.Parallel()
	page := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
		}
	}
	says := func(code codes.Code, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Status", strconv.Itoa(int(code)))
			w.Header().Set("Grpc-Message", text)
		}
	}
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		lost    bool
	}{
		"nginx without a response from the node": {page(http.StatusGatewayTimeout), true},
		"nginx whose node has closed":            {page(http.StatusBadGateway), true},
		"Envoy whose node has closed":            {says(codes.Unavailable, "upstream connect error or disconnect/reset before headers. reset reason: connection termination"), true},
		"a rate of nginx":                        {page(http.StatusTooManyRequests), false},
		"a rate of another gateway":              {says(codes.ResourceExhausted, "slow down"), false},
		"a key is missing":                       {page(http.StatusForbidden), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a, err := invoke(t, runHTTP2(t, Options{}, tt.respond), aTx, AtTip); err == nil || upstream.MayHaveRun(err) != tt.lost {
				t.Errorf("Fetch of a transaction = %+v, %v; want an unknown outcome: %t", a, err, tt.lost)
			}
		})
	}
}

func TestGRPCResponseThatBreaksOffIsNoRefusal(t *testing.T) {
	t.Parallel()
	message := []byte{0, 0, 0, 0, 3, 1, 2, 3}
	for name, end := range map[string]func(w http.ResponseWriter){
		"reset":       func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"no trailers": func(http.ResponseWriter) {},
		"no message":  func(w http.ResponseWriter) { w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := runHTTP2(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(heightKey, "100")
				if name != "no message" {
					_, _ = w.Write(message)
				}
				_ = http.NewResponseController(w).Flush()
				end(w)
			})
			if a, err := invoke(t, p, aMethod, AtTip); upstream.KindOf(err) != upstream.Unreachable {
				t.Errorf("Fetch = %+v, %v; want unreachable", a, err)
			}
			wantUnknownOutcome(t, p)
		})
	}
}

// The server says GOAWAY, and closes the connection before it ends the response.
func TestGRPCConnectionThatClosesAfterGOAWAYIsNoRefusal(t *testing.T) {
	t.Parallel()
	for _, method := range []string{aMethod, aTx} {
		p := runHTTP2(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(heightKey, "100")
			w.Header().Set("Connection", "close") // becomes GOAWAY
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)                                   // usually, GOAWAY arrives first
			_ = r.Context().Value(http.ServerContextKey).(*http.Server).Close() //nolint:forcetypeassert // documented
		})
		a, err := invoke(t, p, method, AtTip)
		if upstream.KindOf(err) != upstream.Unreachable || upstream.MayHaveRun(err) != (method == aTx) {
			t.Errorf("Fetch of %s = %+v, %v; want unreachable, and an unknown outcome of a transaction", method, a, err)
		}
	}
}

func TestGRPCResponseThatStallsAfterItsHeadersIsNoRefusal(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	p := runHTTP2(t, Options{Settings: Settings{Timeout: time.Second}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(heightKey, "100")
		_ = http.NewResponseController(w).Flush()
		<-done
	})
	defer close(done)
	for _, method := range []string{aMethod, aTx} {
		a, err := invoke(t, p, method, AtTip)
		if upstream.KindOf(err) != upstream.Timeout || upstream.MayHaveRun(err) != (method == aTx) {
			t.Errorf("Fetch of %s = %+v, %v; want a timeout, and an unknown outcome of a transaction", method, a, err)
		}
	}
}

func TestTooLargeGRPCResponseIsRejected(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{maxBody: int64(len(n.address)) - 1}, n.address)
	waitForGRPC(t, p, 0, "ok")
	_, err := invoke(t, p, aMethod, AtTip)
	expect.ErrorIs(t, err, errTooLarge, "Fetch")
}

func TestStreamEndsWithItsContext(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, n.address)
	waitForGRPC(t, p, 0, "ok")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		s := expect.Value(p.Stream(ctx, "/a.Service/Follow"))(t)
		expect.NoError(t, s.Send(nil))
		if got, err := s.Receive(); err != nil || string(got) != n.address {
			t.Errorf("message = %q, %v; want %q", got, err, n.address)
		}
		_, err := s.Receive()
		expect.ErrorIs(t, err, io.EOF, "Receive at the end of the stream")
	}
}

func TestGRPCAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9090": true, "http://node:9090": true, "https://node:443/": true, "tcp://[::1]:9090": true,
		"node": false, "https://node": false, "grpc://node:9090": false, "http://user:secret@node:9090": false, "http://node:9090/path": false, "://": false,
	} {
		if _, err := ParseTarget(address); err == nil != ok {
			t.Errorf("ParseTarget(%s) = %v, want valid %t", address, err, ok)
		} else if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseTarget(%s) = %v, want it without the password", address, err)
		}
	}
}

func TestAllValuesOfAHeaderAreSentByGRPC(t *testing.T) {
	o := Options{}.WithDefaults()
	c := expect.Value(newGRPCClient("node", Endpoint{GRPC: "127.0.0.1:1", Headers: http.Header{"X-Key": {"one", "two"}}}, o))(t)
	defer c.close()
	md, _ := metadata.FromOutgoingContext(c.outgoing(t.Context(), 5))
	expect.NoDiff(t, md, metadata.MD{"x-key": {"one", "two"}, heightKey: {"5"}}, "metadata")
}

func TestSecretsAreHiddenInStatuses(t *testing.T) {
	t.Parallel()
	n, rest := startGRPC(t, "127.0.0.1:0", "story-1"), newFakeNode(t, 100)
	rest.grpc = n.address
	e := rest.endpoint()
	e.Headers = http.Header{"X-Key": {"provider-secret"}}
	p := run(t, Options{Endpoints: []Endpoint{e}, BlockInterval: time.Minute})
	waitForGRPC(t, p, 0, "ok")
	for detail, want := range map[string]int{"quota": 1, "quota of provider-secret": 0} {
		st := expect.Value(status.New(codes.InvalidArgument, "no quota").WithDetails(wrapperspb.String(detail)))(t)
		n.change(func() { n.refusal, n.handled = st, true })
		a := expect.Value(invoke(t, p, aMethod, 100))(t)
		var got spb.Status
		expect.NoError(t, proto.Unmarshal(a.Body, &got))
		if got.GetMessage() != "no quota" || len(got.GetDetails()) != want {
			t.Errorf("status with the detail %q = %v, want the text and %d details", detail, &got, want)
		}
	}
}
