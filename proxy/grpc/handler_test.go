package grpc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

const params = "/cosmos.staking.v1beta1.Query/Params"

// dial connects a client of grpc-go to the handler, by default without TLS.
func (d *servers) dial(t testing.TB, options ...google.DialOption) *google.ClientConn {
	t.Helper()
	return dial(t, d.addr, options...)
}

func dial(t testing.TB, target string, options ...google.DialOption) *google.ClientConn {
	t.Helper()
	options = append([]google.DialOption{
		google.WithTransportCredentials(insecure.NewCredentials()), google.WithDefaultCallOptions(google.ForceCodecV2(node.Bytes{})),
	}, options...)
	c := expect.Value(google.NewClient(target, options...))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A reply is what a client receives for a unary call.
type reply struct {
	message         []byte
	header, trailer metadata.MD
	from            string // the server's address
	err             error
}

func (r reply) height() string { return strings.Join(r.header.Get("x-cosmos-block-height"), ",") }

// expectMessageAt fails the test unless the reply has a message, read at a height.
func (r reply) expectMessageAt(t testing.TB, height string) {
	t.Helper()
	if r.err != nil || r.height() != height || len(r.message) == 0 {
		t.Errorf("reply = %x at block %q, error %v; want a message at block %q", r.message, r.height(), r.err, height)
	}
}

// expectCode fails the test unless the reply has a status code.
func (r reply) expectCode(t testing.TB, want codes.Code, what string, args ...any) {
	t.Helper()
	if status.Code(r.err) != want {
		t.Errorf("%s: error = %v, want %v", fmt.Sprintf(what, args...), r.err, want)
	}
}

// invoke calls a method with a message in hexadecimal and pairs of metadata.
func invoke(ctx context.Context, c *google.ClientConn, method, message string, pairs ...string) (r reply) {
	ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	sent, _ := hex.DecodeString(message)
	var server peer.Peer
	r.err = c.Invoke(ctx, method, &sent, &r.message, google.Header(&r.header), google.Trailer(&r.trailer), google.Peer(&server))
	if server.Addr != nil {
		r.from = server.Addr.String()
	}
	return r
}

// openStream opens a stream in both directions, sends a message in hexadecimal, and requires a first response.
func openStream(t testing.TB, c *google.ClientConn, path, message string, pairs ...string) google.ClientStream {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), pairs...)
	s := expect.Value(c.NewStream(ctx, &google.StreamDesc{ServerStreams: true, ClientStreams: true}, path))(t)
	exchangeMessage(t, s, message)
	return s
}

// exchangeMessage sends a message in hexadecimal, and requires a response.
func exchangeMessage(t testing.TB, s google.ClientStream, message string) {
	t.Helper()
	sent, _ := hex.DecodeString(message)
	var got []byte
	if err := errors.Join(s.SendMsg(&sent), s.RecvMsg(&got)); err != nil || len(got) == 0 {
		t.Fatalf("message of the stream = %x, error %v; want a message", got, err)
	}
}

// query calls abci_query of the RPC's handler at block 14.
func (d *servers) query(t testing.TB, path, message string) string {
	t.Helper()
	return d.post(t, fmt.Sprintf(`{"id":1,"method":"abci_query","params":{"path":%q,"data":%q,"height":"14"}}`, path, message))
}

func (d *servers) post(t testing.TB, body string) string {
	t.Helper()
	resp := expect.Value(http.Post(d.rpc.URL, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return string(text)
}

// recordedMessage returns the path and the message of a recorded request.
func recordedMessage(t testing.TB, name string) (path, message string) {
	t.Helper()
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		if x.Name == name {
			return x.Path, x.Message
		}
	}
	t.Fatalf("%s is not recorded", name)
	return "", ""
}

// addTransaction makes the node's RPC find a transaction without a height, and returns its request.
func (n *recordedNode) addTransaction(t testing.TB) (path, message string) {
	t.Helper()
	path, message = recordedMessage(t, "grpc_gettx")
	n.byRPC[callKey(path, message)] = strings.Replace(n.byRPC[callKey(path, message, "14")], `"height":"14"`, `"height":"746"`, 1) // the RPC repeats the requested height
	return path, message
}

// expectRequests fails the test unless the node was asked for a method this many times.
func (n *recordedNode) expectRequests(t testing.TB, path string, byGRPC, byRPC int) {
	t.Helper()
	expect.Equal(t, [2]int{n.requests("gRPC " + path), n.requests("RPC " + path)}, [2]int{byGRPC, byRPC}, "node requests by gRPC and by RPC")
}

func (n *recordedNode) expectOneRead(t testing.TB, path string, byGRPC bool) {
	t.Helper()
	if byGRPC {
		n.expectRequests(t, path, 1, 0)
	} else {
		n.expectRequests(t, path, 0, 1)
	}
}

func TestValueIsReadOnceForAllAPIs(t *testing.T) {
	for _, withGRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("by gRPC %v", withGRPC), func(t *testing.T) {
			n := newRecordedNode(t)
			d := open(t, n, withGRPC)
			c := d.dial(t)
			path, message := recordedMessage(t, "grpc_balance")
			var clients sync.WaitGroup
			for range 10 {
				clients.Go(func() { invoke(t.Context(), c, path, message, "x-cosmos-block-height", "14").expectMessageAt(t, "14") })
				clients.Go(func() {
					want := `{"jsonrpc":"2.0","id":1,"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"ChUKBXN0YWtlEgw5OTk5OTk5OTkwMDA=","proofOps":null,"height":"14","codespace":""}}}`
					expect.Equal(t, d.query(t, path, message), want, "response by RPC")
				})
			}
			clients.Wait()
			n.expectOneRead(t, path, withGRPC)
		})
	}
}

func TestBlockByHeightIsReadOnce(t *testing.T) {
	n := newRecordedNode(t)
	path, message := recordedMessage(t, "grpc_tm_GetBlockByHeight")
	c := open(t, n, true).dial(t)
	for range 3 {
		if r := invoke(t.Context(), c, path, message); r.err != nil || len(r.message) == 0 {
			t.Errorf("message = %x, error %v; want the block", r.message, r.err)
		}
	}
	n.expectOneRead(t, path, true)
}

func TestTransactionIsReadOnceForAllAPIs(t *testing.T) {
	for _, withGRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("by gRPC %v", withGRPC), func(t *testing.T) {
			n := newRecordedNode(t)
			path, message := n.addTransaction(t)
			d := open(t, n, withGRPC)
			c := d.dial(t)
			call := fmt.Sprintf(`{"id":1,"method":"abci_query","params":{"path":%q,"data":%q}}`, path, message)
			for range 3 {
				r := invoke(t.Context(), c, path, message)
				r.expectMessageAt(t, "746")
				want := fmt.Sprintf(`"value":"%s","proofOps":null,"height":"746"`, base64.StdEncoding.EncodeToString(r.message))
				expect.Contains(t, d.post(t, call), want, "response by RPC")
			}
			n.expectOneRead(t, path, withGRPC)
		})
	}
}

func TestErrorIsReadByEachAPIOnceInItsOwnForm(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	c := d.dial(t)
	path, message := recordedMessage(t, "grpc_account_unknown")
	for range 3 {
		r := invoke(t.Context(), c, path, message, "x-cosmos-block-height", "14")
		r.expectCode(t, codes.NotFound, "unknown account")
		expect.Equal(t, r.height(), "14", "height of the error")
		expect.Contains(t, d.query(t, path, message), `"code":22,"log":"rpc error: code = NotFound desc = account`, "response by RPC")
	}
	n.expectRequests(t, path, 1, 1)
}

func TestRPCAnswersWhileGRPCOfNodeIsDown(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.server.Stop()
	path, message := recordedMessage(t, "grpc_balance")
	invoke(t.Context(), d.dial(t), path, message, "x-cosmos-block-height", "14").expectMessageAt(t, "14")
	n.expectRequests(t, path, 0, 1)
}

func TestMethodThatTheRPCLacksIsUnavailableWhileGRPCOfNodeIsDown(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.server.Stop()
	const path = "/cosmos.bank.v1beta1.Query/OnlyByGRPC"
	n.change(func() {
		n.byRPC[callKey(path, "")] = `{"response":{"code":6,"log":"unknown query path: unknown request","codespace":"sdk"}}`
	})
	invoke(t.Context(), d.dial(t), path, "").expectCode(t, codes.Unavailable, "method that only gRPC has")
}

func TestGRPCAnswersWhileRPCOfNodeIsDown(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.rpc.Close()
	path, message := recordedMessage(t, "grpc_balance")
	expect.Contains(t, d.query(t, path, message), `"value":"ChUKBXN0YWtlEgw5OTk5OTk5OTkwMDA="`, "response by RPC")
}

func TestStartingNodeIsReadByRPC(t *testing.T) {
	n := newRecordedNode(t)
	path, message := n.addTransaction(t)
	d := open(t, n, true)
	n.change(func() { n.new = true })
	invoke(t.Context(), d.dial(t), path, message).expectMessageAt(t, "746")
}

func TestTransactionIsSentToOneNodeOnce(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	path, message := recordedMessage(t, "grpc_broadcast_garbage")
	n.change(func() { delete(n.byGRPC, callKey(path, message)) }) // the node refuses it
	invoke(t.Context(), d.dial(t), path, message).expectCode(t, codes.Unimplemented, "refused transaction")
	expect.Equal(t, n.requests("gRPC "+path)+n.requests("RPC broadcast"), 1, "node requests")
}

func TestTransactionsBeyondThePostRateAreRefused(t *testing.T) {
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.grpc.Posting = blocks.NewPosting(blocks.Posts{Rate: 1e-6, Burst: 1, MaxBody: largestMessage})
	})
	path, message := recordedMessage(t, "grpc_broadcast_garbage")
	c := d.dial(t)
	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		invoke(t.Context(), c, path, message).expectCode(t, want, "transaction %d", i+1)
	}
}

func TestUnknownMethodAndUnknownServiceHaveDifferentErrors(t *testing.T) {
	n := newRecordedNode(t)
	tests := map[string]string{
		"/cosmos.bank.v1beta1.Query/Nothing": "unknown method Nothing for service cosmos.bank.v1beta1.Query",
		"/cosmos.tank.v1beta1.Query/Balance": "unknown service cosmos.tank.v1beta1.Query",
	}
	for method := range tests {
		n.byRPC[callKey(method, "")] = `{"response":{"code":6,"log":"unknown query path: unknown request","codespace":"sdk"}}`
	}
	c := open(t, n, false).dial(t)
	for method, want := range tests {
		if st := status.Convert(invoke(t.Context(), c, method, "").err); st.Code() != codes.Unimplemented || st.Message() != want {
			t.Errorf("%s: error = %v, want Unimplemented: %s", method, st, want)
		}
	}
}

func TestTransactionSentByRPCHasTheResponseOfGRPC(t *testing.T) {
	n := newRecordedNode(t)
	path, message := recordedMessage(t, "grpc_broadcast_garbage")
	n.byRPC["broadcast_tx_syncAAE="] = `{"code":2,"data":"","log":"invalid length; tx parse error","codespace":"sdk","hash":"B413"}`
	d := open(t, n, false)
	want := append([]byte{0x0a, 6 + 5 + 2 + 32}, "\x12\x04B413\x1a\x03sdk\x20\x022\x1einvalid length; tx parse error"...)
	r := invoke(t.Context(), d.dial(t), path, message)
	if r.err != nil || !bytes.Equal(r.message, want) {
		t.Errorf("message = %x, error %v; want %x", r.message, r.err, want)
	}
	expect.Equal(t, n.requests("RPC broadcast_tx_sync"), 1, "node requests")
}

func TestStreamIsPassedOnBothWays(t *testing.T) {
	d := open(t, newRecordedNode(t), true)
	path, message := recordedMessage(t, "grpc_reflection_list")
	s := openStream(t, d.dial(t), path, message)
	expect.ErrorIs(t, s.RecvMsg(new([]byte)), io.EOF, "second message of the stream")
}

func TestStreamIsReadAtTheHeightThatItNames(t *testing.T) {
	n := newRecordedNode(t)
	n.setService(func(stream google.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		message := []byte(strings.Join(md.Get("x-cosmos-block-height"), ","))
		return stream.SendMsg(&message)
	})
	c := open(t, n, true, func(s *setup) { s.blocks.MinHeightWait = time.Millisecond }).dial(t)
	for _, tt := range []struct {
		pairs []string
		want  string // message
		code  codes.Code
	}{
		{nil, "", codes.OK},
		{[]string{"x-cosmos-block-height", "700"}, "700", codes.OK},
		{[]string{"x-min-block-height", "x"}, "", codes.InvalidArgument},
		{[]string{"x-min-block-height", "750"}, "", codes.Unavailable},
	} {
		r := invoke(t.Context(), c, "/x.Y/Z", "00", tt.pairs...)
		if status.Code(r.err) != tt.code || string(r.message) != tt.want {
			t.Errorf("response with %q = %q, %v; want %q, %s", tt.pairs, r.message, r.err, tt.want, tt.code)
		}
	}
}

func TestStreamIsUnimplementedWithoutGRPCOfNode(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	r := invoke(t.Context(), d.dial(t), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "")
	if status.Code(r.err) != codes.Unimplemented || !strings.Contains(r.err.Error(), "no node's gRPC is configured") {
		t.Errorf("error = %v, want Unimplemented because no node's gRPC is configured", r.err)
	}
}

func TestResponsesAreNotCompressed(t *testing.T) {
	d := open(t, newRecordedNode(t), true)
	compressed := hex.EncodeToString(framed(1, gzipZeros(t, 0)))
	for sent, encoding := range map[string]string{compressed: "gzip", "0000000000": ""} {
		x := exchange{Path: params, Raw: &sent, Metadata: map[string][]string{"x-cosmos-block-height": {"14"}, "grpc-accept-encoding": {"gzip"}}}
		if encoding != "" {
			x.Metadata["grpc-encoding"] = []string{encoding}
		}
		resp, body := x.send(t, "http://"+d.addr)
		if got := resp.Header.Get("Grpc-Encoding"); got != "" && got != "identity" || len(body) < 6 || body[0] != 0 {
			t.Errorf("response to %s: encoding %q, body %x; want no compression", sent, got, body)
		}
	}
}

func TestTooLargeMessageIsRefused(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	message := strings.Repeat("00", largestMessage+1)
	invoke(t.Context(), d.dial(t), params, message).expectCode(t, codes.ResourceExhausted, "message of %d bytes", largestMessage+1)
}

func TestBlockIsAwaitedUntilClientDeadline(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	invoke(ctx, d.dial(t), params, "", "x-min-block-height", "747").expectCode(t, codes.DeadlineExceeded, "call that waits for the next block")
}

func TestAmbiguousHeightIsRefused(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	c := d.dial(t)
	for _, pairs := range [][]string{
		{"x-cosmos-block-height", "7", "x-cosmos-block-height", "7"}, {"x-min-block-height", "x"}, {"x-cosmos-block-height", "7", "x-min-block-height", "8"},
	} {
		r := invoke(t.Context(), c, params, "", pairs...)
		r.expectCode(t, codes.InvalidArgument, "%q", pairs)
		expect.Equal(t, r.height(), "", "height of the response to %q", pairs)
	}
}

func TestValueOutsideStateIsNotCached(t *testing.T) {
	path, message := recordedMessage(t, "grpc_balance")
	for _, withGRPC := range []bool{false, true} {
		n := newRecordedNode(t)
		d := open(t, n, withGRPC, func(s *setup) { s.grpc.State.Rows = map[string]dialect.Row{path: {Class: blocks.Never}} })
		c := d.dial(t)
		for range 3 {
			invoke(t.Context(), c, path, message, "x-cosmos-block-height", "14").expectMessageAt(t, "14")
		}
		expect.Equal(t, n.requests("gRPC "+path)+n.requests("RPC "+path), 3, "node requests (by gRPC: %v)", withGRPC)
	}
}

func TestPanicBeforeACallIsAdmittedEndsOnlyTheCall(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.grpc.Stream = func(context.Context, string) (*node.Stream, error) { panic("test") } // called for reflection
	})
	conn := d.dial(t)
	invoke(t.Context(), conn, price, "").expectCode(t, codes.Internal, "call that panics")
	invokeAt14(t, conn).expectMessageAt(t, "14")
}

func TestUncachedAnswerBelowTheRequiredBlockIsRefused(t *testing.T) {
	n := newRecordedNode(t)
	const uncached, stream = "/x.Query/Uncached", "/x.Y/Z"
	n.setService(failWith(nil, metadata.Pairs("x-cosmos-block-height", "745"), nil, "a message"))
	d := open(t, n, true, func(s *setup) { s.grpc.State.Rows = map[string]dialect.Row{uncached: {Class: blocks.Never}} })
	c := d.dial(t)
	for _, method := range []string{uncached, stream} {
		invoke(t.Context(), c, method, "", "x-min-block-height", "745").expectMessageAt(t, "745")
		invoke(t.Context(), c, method, "", "x-min-block-height", "746").expectCode(t, codes.Unavailable, "%s by a node at block 745", method)
	}
}
